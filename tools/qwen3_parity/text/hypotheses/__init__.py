"""Named mistakes of tokenizers, by stage: `registry` has them all, `wrong` says what one is."""
