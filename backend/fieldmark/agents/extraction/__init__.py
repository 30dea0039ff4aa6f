"""The extraction agent: reads one document, writes its fields, corrects them in words."""
