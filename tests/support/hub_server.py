"""A model hub on this machine: as much of its protocol as downloading a snapshot and uploading a commit take."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@contextmanager
def hub(repository, commit, folder, token=None, before=lambda name: None, store=None, keys=None):
    """Serve `folder` as `repository` at `commit`; yields the address, all requests and the files fetched.

    Who has the `token` may make the repository and commit to it: large files first, by their SHA-256, then one request
    that names them and holds the small ones. `before` is called with the name of a file that is about to be sent; it
    may take its time. To the address `store`, if given, large files are redirected; `keys`, a list, gets the
    Authorization of each request for a file.
    """
    asked, fetched, large = [], [], {}

    def listed():
        return {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}

    files = listed()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = urlsplit(self.path).path
            asked.append(path)
            api, resolve = f"/api/models/{repository}", f"/{repository}/resolve/"
            if path.startswith(f"{api}/tree/"):
                return self.json([self.entry(name) for name in files])
            if path in (api, f"{api}/revision/main", f"{api}/revision/{commit}"):
                siblings = [{"rfilename": name} | self.large(name) for name in files]
                return self.json({"id": repository, "modelId": repository, "sha": commit, "siblings": siblings})
            if path.startswith(f"{api}/revision/"):
                return self.refuse("RevisionNotFound")
            if not path.startswith(resolve):
                return self.refuse("RepoNotFound")
            revision, _, name = path.removeprefix(resolve).partition("/")
            if revision not in ("main", commit):
                return self.refuse("RevisionNotFound")
            if name not in files:
                return self.refuse("EntryNotFound")
            content = files[name].read_bytes()
            if keys is not None:
                keys.append(self.headers.get("Authorization"))
            if store and self.command == "GET" and name.endswith(".onnx"):
                return self.reply(302, b"", {"Location": f"{store}/{name}"})
            if self.command == "GET":
                fetched.append(name)
                before(name)
            headers = {"X-Repo-Commit": commit, "ETag": f'"{self.entry(name)["oid"]}"'}
            if name.endswith((".onnx", ".safetensors")):  # Large files have their SHA-256 for a name.
                headers["X-Linked-Etag"] = f'"{hashlib.sha256(content).hexdigest()}"'
                headers["X-Linked-Size"] = str(len(content))
            start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
            if self.command == "GET" and start:
                fetched[-1] = f"{name} from {start}"
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            return self.reply(206 if start else 200, content[start:], headers)

        do_HEAD = do_GET  # noqa: N815

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            path = urlsplit(self.path).path
            asked.append(path)
            if token is None or self.headers.get("Authorization") != f"Bearer {token}":
                return self.reply(401, b"{}", {})
            here, api = f"http://127.0.0.1:{self.server.server_address[1]}", f"/api/models/{repository}"
            if path == "/api/repos/create":
                return self.json({"url": f"{here}/{repository}"})
            if path == "/api/validate-yaml":
                return self.json({"errors": [], "warnings": []})
            if path == f"{api}/preupload/main":
                modes = [(one["path"], one["path"].endswith(".safetensors")) for one in json.loads(body)["files"]]
                about = [
                    {"path": name, "uploadMode": "lfs" if big else "regular", "shouldIgnore": False}
                    for name, big in modes
                ]
                return self.json({"files": about})
            if path == f"/{repository}.git/info/lfs/objects/batch":
                objects = json.loads(body)["objects"]
                actions = [{**one, "actions": {"upload": {"href": f"{here}/large/{one['oid']}"}}} for one in objects]
                return self.json({"transfer": "basic", "objects": actions})
            if path == f"{api}/commit/main":
                for key, value in [json.loads(line).values() for line in body.splitlines()]:
                    if key == "file":
                        folder.joinpath(value["path"]).write_bytes(base64.b64decode(value["content"]))
                    elif key == "lfsFile":
                        folder.joinpath(value["path"]).write_bytes(large[value["oid"]])
                files.update(listed())
                return self.json({"commitUrl": f"{here}/{repository}/commit/{commit}", "commitOid": commit})
            return self.refuse("RepoNotFound")

        def do_PUT(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            oid = hashlib.sha256(content).hexdigest()
            large[oid] = content
            self.reply(200 if self.path == f"/large/{oid}" else 400, b"", {"ETag": f'"{oid}"'})

        def entry(self, name):
            content = files[name].read_bytes()
            oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            return {"type": "file", "path": name, "size": len(content), "oid": oid}

        def large(self, name):
            content = files[name].read_bytes()
            lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            return {"size": len(content)} | ({"lfs": lfs} if name.endswith(".onnx") else {})

        def json(self, value):
            self.reply(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

        def refuse(self, code):
            self.reply(404, b"{}", {"X-Error-Code": code})

        def reply(self, status, content, headers):
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(content))}).items():
                self.send_header(name, value)
            with suppress(ConnectionError):  # Nobody waits for it any more.
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked, fetched
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
