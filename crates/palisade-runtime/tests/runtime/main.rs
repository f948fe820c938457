//! The sources of input as their callers see them.
//!
//! `cfg(test)` is always set here; it is written out because clippy allows `unwrap` only where it is.

#[cfg(test)]
mod api_server;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod kubeconfig;
#[cfg(test)]
mod live;
#[cfg(test)]
mod mock_api;
#[cfg(test)]
mod real;
