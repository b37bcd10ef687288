"""Messages generated from the proto files, whose comments are the reference."""
