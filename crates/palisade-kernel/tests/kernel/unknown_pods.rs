//! The table that drops packets of pods that the agent does not know.

use std::collections::BTreeSet;

use palisade_kernel::{Nftables, Restored, TableKeeper};
use palisade_nft::{Table, UnknownPod, UnknownPods};

use crate::ground::{in_netns, nft};

#[test]
fn the_table_of_unknown_pods_holds_what_was_asked_for_last() {
    in_netns(|| {
        let mut keeper = TableKeeper::new(Nftables::open().unwrap(), Table::UnknownPods);
        let pod = |link: &str, address: &str| -> UnknownPod { (link.to_owned(), address.parse().unwrap()) };
        let all = [pod("tap1", "10.0.0.1"), pod("tap2", "fd00::2"), pod("fifteen-letters", "10.0.0.3")];
        for (origin, wanted) in [(7, &all[..1]), (7, &all[..]), (8, &all[1..]), (8, &all[2..])] {
            let pods: BTreeSet<UnknownPod> = wanted.iter().cloned().collect();
            let wanted = UnknownPods { origin, pods: pods.clone() }.ruleset();
            keeper.replace(wanted.clone()).unwrap();
            let Some(text) = nft(&["-s", "list", "table", "inet", "palisade-strays"], "") else { return };
            for pod @ (link, address) in &all {
                assert_eq!(text.contains(&format!("\"{link}\" . {address}")), pods.contains(pod), "{text}");
            }
            assert!(text.contains(&format!("log prefix \"palisade:{origin:08x} \" group 4791 drop")), "{text}");
            // An agent that starts later reads the same table.
            assert_eq!(keeper.dump(), Ok(wanted));
            assert_eq!((keeper.restore_missing(), keeper.restore()), (Ok(Restored::No), Ok(Restored::No)));
            for (edit, missing) in [
                ("delete table inet palisade-strays", Restored::Yes),
                ("insert rule inet palisade-strays forward accept", Restored::No),
                ("flush chain inet palisade-strays denied", Restored::No),
                ("add table inet palisade-strays { flags dormant; }", Restored::No),
            ] {
                nft(&["-f", "-"], edit);
                let changed = if missing == Restored::Yes { Restored::No } else { Restored::Yes };
                assert_eq!((keeper.restore_missing(), keeper.restore()), (Ok(missing), Ok(changed)), "{edit}");
                assert_eq!(nft(&["-s", "list", "table", "inet", "palisade-strays"], "").as_ref(), Some(&text), "{edit}");
            }
        }
        // A later agent knows nothing of the table, and removes it.
        TableKeeper::new(Nftables::open().unwrap(), Table::UnknownPods).replace(None).unwrap();
        assert_eq!(nft(&["list", "ruleset"], ""), Some(String::new()));
    });
}
