//! Whether a change of our tables was made by somebody else.

use std::path::Path;

use palisade_kernel::Changed;
use palisade_nft::Table;

/// Who made a change of our table, unless it was this process.
pub(crate) fn stranger(changed: &Changed) -> Option<String> {
    match changed {
        Changed::Transaction { by, process, tables, .. } => {
            // The kernel names the thread, by its number in the first process namespace. Elsewhere somebody else may have that number here.
            let ours = in_first_process_namespace() && Path::new("/proc/self/task").join(by.to_string()).exists();
            let touched = tables.iter().any(|it| it.name == Table::Own.name() || it.name == Table::Audit.name());
            (touched && !ours).then(|| format!("{process} (process {by})"))
        }
        Changed::Unknown => Some("an unknown process".to_owned()),
    }
}

/// The first process namespace has a fixed number.
fn in_first_process_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|it| it.as_os_str() == "pid:[4026531836]")
}
