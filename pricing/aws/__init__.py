"""What AWS answers, read into our own values: one file a source, each with a pure `parse_*`.

Nothing here asks AWS. A caller fetches replies and passes them in, and what is left out is counted by reason.
"""
