"""`lpp serve`: saved classifiers behind HTTP.

A request goes through `app.py` (routes), `reading.py` (what was sent, within limits), `batcher.py` (images to
embeddings, several requests at once) and `answers.py` (embeddings to JSON). `shelf.py` keeps the classifiers and looks
for newer files.
"""
