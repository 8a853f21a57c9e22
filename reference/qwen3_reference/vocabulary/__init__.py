"""The committed vocabulary: trained from the committed corpus, loud on purpose, in Hugging Face's formats."""
