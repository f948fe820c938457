//! Namespaces and their settings.

use std::path::Path;

use palisade_kernel::{Links, Namespace, set_sysctl, sysctl};

use crate::ground::{await_links, privileged};

#[test]
fn whoever_creates_a_namespace_stays_in_its_own() {
    let Some(fresh) = privileged(Namespace::create()) else { return };
    let before = Namespace::current().unwrap().id().unwrap();
    let other = Namespace::create().unwrap();
    assert_eq!(Namespace::current().unwrap().id().unwrap(), before);
    let inside = fresh.run(|| Namespace::current().unwrap().id().unwrap()).unwrap();
    assert_eq!(inside, fresh.id().unwrap());
    assert!(inside != before && inside != other.id().unwrap());
    assert!(inside.to_string().starts_with("net:["), "{inside}");
}

#[test]
fn a_thread_that_enters_stays_inside() {
    let Some(fresh) = privileged(Namespace::create()) else { return };
    let id = fresh.id().unwrap();
    let work = || {
        fresh.enter().unwrap();
        Namespace::current().unwrap().id().unwrap()
    };
    assert_eq!(std::thread::scope(|scope| scope.spawn(work).join().unwrap()), id);
}

#[test]
fn a_namespace_is_opened_by_its_file() {
    let Some(fresh) = privileged(Namespace::create()) else { return };
    let opened = fresh.run(|| Namespace::open(Path::new("/proc/thread-self/ns/net")).unwrap()).unwrap();
    assert_eq!(opened.id().unwrap(), fresh.id().unwrap());
    let error = Namespace::open(Path::new("/proc/self/ns/pid")).unwrap_err().to_string();
    assert_eq!(error, "cannot enter network namespace `/proc/self/ns/pid`: Invalid argument");
    let error = Namespace::open(Path::new("/nowhere")).unwrap_err().to_string();
    assert_eq!(error, "cannot find network namespace `/nowhere`: No such file or directory");
}

#[test]
fn a_panic_inside_goes_on_outside() {
    let Some(fresh) = privileged(Namespace::create()) else { return };
    let caught = std::panic::catch_unwind(|| fresh.run(|| panic!("inside")));
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"inside"));
}

#[test]
fn a_namespace_is_gone_with_its_last_handle() {
    let Some(here) = privileged(Namespace::create()) else { return };
    let there = Namespace::create().unwrap();
    let mut links = here.run(|| Links::open().unwrap()).unwrap();
    links.add_veth("near", "far", &there).unwrap();
    // A socket is a handle too.
    let inside = there.run(|| Links::open().unwrap()).unwrap();
    drop(there);
    links.add_bridge("witness").unwrap();
    let names = |links: &[palisade_kernel::Link]| links.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&links.list().unwrap()), ["lo", "near", "witness"]);
    drop(inside);
    await_links(&here, |links| names(links) == ["lo", "witness"]);
}

#[test]
fn settings_are_of_one_namespace() {
    let Some(here) = privileged(Namespace::create()) else { return };
    let there = Namespace::create().unwrap();
    let name = "net/ipv4/ip_forward";
    let read = |namespace: &Namespace| namespace.run(|| sysctl(name).unwrap()).unwrap();
    let before = (sysctl(name).unwrap(), read(&there));
    let flipped = if before.1 == "0" { "1" } else { "0" };
    here.run(|| set_sysctl(name, flipped).unwrap()).unwrap();
    assert_eq!((read(&here).as_str(), (sysctl(name).unwrap(), read(&there))), (flipped, before));
}

#[test]
fn a_setting_that_cannot_be_is_named() {
    let Some(here) = privileged(Namespace::create()) else { return };
    let cases = [
        ("net/ipv4/nothing", "1", "cannot change sysctl `net/ipv4/nothing`: No such file or directory"),
        ("net/ipv4/ip_forward", "many", "cannot change sysctl `net/ipv4/ip_forward`: Invalid argument"),
        ("kernel/hostname", "x", "cannot change sysctl `kernel/hostname`: Invalid argument"),
        ("net/../kernel/hostname", "x", "cannot change sysctl `net/../kernel/hostname`: Invalid argument"),
        ("/net/ipv4/ip_forward", "1", "cannot change sysctl `/net/ipv4/ip_forward`: Invalid argument"),
    ];
    for (name, value, expected) in cases {
        assert_eq!(here.run(|| set_sysctl(name, value)).unwrap().unwrap_err().to_string(), expected);
    }
}
