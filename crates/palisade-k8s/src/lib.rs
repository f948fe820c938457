//! Objects into the model: index, fail-closed conversion, sources.
