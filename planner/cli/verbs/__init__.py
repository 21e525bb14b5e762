"""One module per command: `add_flags` describes it, `run` answers it. Imported only when it is asked for."""
