"""Deployment of a trained classifier: one ONNX file, and services. Only the page and the command line import this."""
