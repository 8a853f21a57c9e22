"""The judge of tokenizers: recordings of texts, stage by stage. The modules are imported one by one."""
