//! Commands that `lab exec` started: found by a mark in their environment, which their children inherit.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The variable that names the lab of a command.
pub(crate) const MARK: &str = "PALISADE_LAB";

const PATIENCE: Duration = Duration::from_secs(5);

/// Ends every command of a lab, and says which.
pub(crate) fn end_marked(lab: &str) -> Result<Vec<String>> {
    let mut ended = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = marked(lab)?;
        if left.is_empty() {
            return Ok(ended);
        }
        for (pid, command) in left {
            match kill(pid, Signal::SIGKILL) {
                Ok(()) if !ended.contains(&format!("{command} ({pid})")) => ended.push(format!("{command} ({pid})")),
                // It has ended by itself.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => bail!("process {pid} (`{command}`) of lab `{lab}` cannot be ended: {error}"),
            }
        }
        if Instant::now() > deadline {
            bail!("commands of lab `{lab}` have not ended within {} seconds", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes that carry the mark of a lab, but for the one that asks and those that started it.
fn marked(lab: &str) -> Result<Vec<(Pid, String)>> {
    let mark = format!("{MARK}={lab}");
    let own = ancestors();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse::<i32>().ok()) else { continue };
        // A process that ends meanwhile cannot be read, and one that has ended has no environment.
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        if own.contains(&pid) || !environment.split(|it| *it == 0).any(|it| it == mark.as_bytes()) {
            continue;
        }
        let command = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        found.push((Pid::from_raw(pid), command.trim_end().to_owned()));
    }
    Ok(found)
}

fn ancestors() -> Vec<i32> {
    let mut chain = Vec::new();
    let mut pid = Pid::this().as_raw();
    while pid > 0 && !chain.contains(&pid) {
        chain.push(pid);
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|it| it.strip_prefix("PPid:")).and_then(|it| it.trim().parse().ok());
        pid = parent.unwrap_or(0);
    }
    chain
}
