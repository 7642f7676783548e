"""A model hub on this machine: as much of its protocol as downloading a snapshot takes."""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@contextmanager
def hub(repository, commit, folder):
    """Serve `folder` as `repository` at `commit`; yields the address, all requests and the files fetched."""
    files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    asked, fetched = [], []

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
            name = path.removeprefix(resolve).partition("/")[2]
            if name not in files:
                return self.refuse("EntryNotFound")
            content = files[name].read_bytes()
            if self.command == "GET":
                fetched.append(name)
            headers = {"X-Repo-Commit": commit, "ETag": f'"{self.entry(name)["oid"]}"'}
            if name.endswith(".onnx"):  # Large files have their SHA-256 for a name.
                headers["X-Linked-Etag"] = f'"{hashlib.sha256(content).hexdigest()}"'
                headers["X-Linked-Size"] = str(len(content))
            start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
            if self.command == "GET" and start:
                fetched[-1] = f"{name} from {start}"
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            return self.reply(206 if start else 200, content[start:], headers)

        do_HEAD = do_GET  # noqa: N815

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
            self.end_headers()
            if self.command == "GET":
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
