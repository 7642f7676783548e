"""A classifier as one ONNX file: `pixels` prepares a photo, `tower` encodes it, `head` classifies, `write` joins."""
