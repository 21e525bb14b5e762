"""What AWS answers, read into our own values: one file a source, each a call plus a pure `parse_*`.

What is left out of an answer is counted by reason; an answer that is not whole is none. The SDK is imported where it is needed.
"""
