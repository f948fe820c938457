//! Addresses behind links of which nobody has told.

use std::collections::BTreeSet;

use palisade_kernel::{Restored, Stray, Strays};

use crate::ground::{in_netns, nft};

#[test]
fn the_table_of_strays_holds_what_was_asked_for_last() {
    in_netns(|| {
        let mut strays = Strays::open().unwrap();
        let stray = |link: &str, address: &str| -> Stray { (link.to_owned(), address.parse().unwrap()) };
        let all = [stray("tap1", "10.0.0.1"), stray("tap2", "fd00::2"), stray("fifteen-letters", "10.0.0.3")];
        for (origin, wanted) in [(7, &all[..1]), (7, &all[..]), (8, &all[1..]), (8, &all[2..])] {
            let wanted: BTreeSet<Stray> = wanted.iter().cloned().collect();
            strays.replace(origin, &wanted).unwrap();
            let Some(text) = nft(&["-s", "list", "table", "inet", "palisade-strays"], "") else { return };
            for stray @ (link, address) in &all {
                assert_eq!(text.contains(&format!("\"{link}\" . {address}")), wanted.contains(stray), "{text}");
            }
            assert!(text.contains(&format!("log prefix \"palisade:{origin:08x} \" group 4791 drop")), "{text}");
            assert_eq!(strays.check(), Ok(Restored::No));
            nft(&["delete", "table", "inet", "palisade-strays"], "");
            assert_eq!(strays.check(), Ok(Restored::Yes));
        }
        // A later agent knows nothing of it, and takes it away.
        Strays::open().unwrap().replace(0, &BTreeSet::new()).unwrap();
        assert_eq!(nft(&["list", "ruleset"], ""), Some(String::new()));
    });
}
