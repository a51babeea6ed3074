"""Graph to Program: kernel calls over buffers, and where every buffer lies."""
