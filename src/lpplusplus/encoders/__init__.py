"""Image–text encoders, opened by name; one small file each."""

from .base import Encoder, EncoderError

__all__ = ["Encoder", "EncoderError"]
