//! Whether IPVS balances connections here.

use crate::error::{Attempt, KernelError, NetworkObject};
use crate::namespace::errno;

const SERVERS: &str = "/proc/thread-self/net/ip_vs";

/// How many virtual servers there are. None where the kernel has no IPVS.
pub(super) fn virtual_servers() -> Result<usize, KernelError> {
    match std::fs::read_to_string(SERVERS) {
        Ok(text) => Ok(count(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(KernelError::refused(Attempt::Read, NetworkObject::All("virtual servers"), errno(error))),
    }
}

/// Servers stand at the beginning of a line with their protocol; what they lead to is below them.
fn count(text: &str) -> usize {
    text.lines().filter(|it| ["TCP", "UDP", "SCTP", "FWM"].iter().any(|protocol| it.starts_with(protocol))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_counted_and_what_is_behind_them_is_not() {
        let text = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n\
                    TCP  0A600001:01BB rr\n  -> C0A80002:192B      Masq    1      0          0\nUDP  0A60000A:0035 rr\n";
        assert_eq!((count(text), count("")), (2, 0));
    }
}
