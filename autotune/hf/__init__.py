"""Reading Hugging Face `config.json`: one table of architectures, one reader, one mapping to `ModelSpec`."""
