//! Kubernetes objects as texts and types: spanned trees, the kinds policy needs, defaults and validation.
