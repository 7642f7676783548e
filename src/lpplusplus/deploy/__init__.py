"""A trained classifier where its owner needs it: one ONNX file, and services. Nothing but the command line imports this."""
