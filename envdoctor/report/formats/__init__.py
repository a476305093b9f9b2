"""The shapes a result takes beside text and JSON, one file a format: all are made from the JSON document alone."""
