//! Every input that is kept, once.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use palisade_fuzz::Target;

#[test]
fn every_seed_holds() {
    for target in Target::ALL {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name());
        let mut count = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let data = fs::read(&path).unwrap();
            assert!(catch_unwind(|| target.check(&data)).is_ok(), "{}", path.display());
            count += 1;
        }
        assert!(count > 0, "{} has no seeds", target.name());
    }
}
