"""A trained classifier where its owner needs it: one ONNX file, and services. Only the command line imports this."""
