//! Settings of a network namespace, as files below `/proc/sys/net`.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use crate::error::{Attempt, KernelError, NetworkObject};
use crate::namespace::errno;

/// Writes a setting of the namespace of the calling thread, by a name such as `net/ipv4/ip_forward`.
///
/// Only names below `net` are taken: all others are of the host as a whole.
pub fn set_sysctl(name: &str, value: &str) -> Result<(), KernelError> {
    let failed = |errno| KernelError::refused(Attempt::Change, NetworkObject::Sysctl(name.to_owned()), errno);
    let mut file = OpenOptions::new().write(true).open(path(name).map_err(failed)?).map_err(|error| failed(errno(error)))?;
    // The kernel takes each write for a whole value.
    let written = file.write(value.as_bytes()).map_err(|error| failed(errno(error)))?;
    if written == value.len() { Ok(()) } else { Err(failed(Errno::EINVAL)) }
}

/// Reads a setting of the namespace of the calling thread, without the end of the line.
pub fn sysctl(name: &str) -> Result<String, KernelError> {
    let failed = |errno| KernelError::refused(Attempt::Read, NetworkObject::Sysctl(name.to_owned()), errno);
    let mut file = OpenOptions::new().read(true).open(path(name).map_err(failed)?).map_err(|error| failed(errno(error)))?;
    let mut value = String::new();
    file.read_to_string(&mut value).map_err(|error| failed(errno(error)))?;
    Ok(value.trim_end_matches('\n').to_owned())
}

fn path(name: &str) -> Result<PathBuf, Errno> {
    let name = Path::new(name);
    let plain = name.components().all(|it| matches!(it, Component::Normal(_)));
    if plain && name.starts_with("net") { Ok(Path::new("/proc/sys").join(name)) } else { Err(Errno::EINVAL) }
}
