"""The committed cases on another device: Hugging Face's model and ours in every arithmetic and attention it offers."""
