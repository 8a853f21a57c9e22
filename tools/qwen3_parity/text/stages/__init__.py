"""Every stage of a tokenizer, one file each: its truth, how it is compared, and its wrong ways."""
