"""The library agent: questions over many documents, answered with the places that the answer rests on."""
