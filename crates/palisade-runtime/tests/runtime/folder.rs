//! Files and folders. Every test builds a small tree and compares everything that comes out of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use palisade_runtime::folder::{Input, read};
use tempfile::TempDir;

/// Reads paths below `root` and prints what came out: texts first, with `$` for the root.
fn shown(root: &Path, inputs: &[&str]) -> String {
    let inputs: Vec<Input> = inputs.iter().map(|input| Input::Path(root.join(input))).collect();
    let gathered = read(&inputs);
    assert_eq!(gathered.unavailable, []);
    let texts = gathered.texts.iter().map(|text| format!("{} = {:?}", text.file, text.content));
    let diagnostics = gathered.diagnostics.iter().map(ToString::to_string);
    let lines: Vec<String> = texts.chain(diagnostics).collect();
    lines.join("\n").replace(&root.display().to_string(), "$")
}

#[track_caller]
fn check(root: &Path, inputs: &[&str], expected: &[&str]) {
    let shown = shown(root, inputs);
    let expected = expected.join("\n");
    assert!(shown == expected, "got:\n{shown}\nexpected:\n{expected}");
}

/// A folder with these files; parents are made as needed.
fn tree(files: &[(&str, &[u8])]) -> TempDir {
    let root = TempDir::with_prefix("palisade").unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

#[test]
fn a_folder_yields_its_manifests_sorted_by_path_bytes() {
    let root = tree(&[
        ("m/b.yml", b"2"),
        ("m/a/z.json", b"4"),
        ("m/a.yaml", b"3"),
        ("m/a-b.yaml", b"1"),
        ("m/kustomization.yaml", b"5"),
        ("m/README.md", b"no"),
        ("m/values.yaml.bak", b"no"),
        ("m/UPPER.YAML", b"no"),
        ("m/.hidden.yaml", b"no"),
        ("m/.git/c.yaml", b"no"),
    ]);
    let expected =
        ["$/m/a-b.yaml = \"1\"", "$/m/a.yaml = \"3\"", "$/m/a/z.json = \"4\"", "$/m/b.yml = \"2\"", "$/m/kustomization.yaml = \"5\""];
    check(root.path(), &["m"], &expected);
}

#[test]
fn a_named_file_is_read_whatever_its_name() {
    let root = tree(&[(".policy.txt", b"a: 1\r\n")]);
    check(root.path(), &[".policy.txt"], &["$/.policy.txt = \"a: 1\\r\\n\""]);
}

#[test]
fn a_named_folder_may_be_hidden() {
    let root = tree(&[(".ci/a.yaml", b"1")]);
    check(root.path(), &[".ci"], &["$/.ci/a.yaml = \"1\""]);
}

#[test]
fn inputs_keep_their_order_and_a_file_reached_twice_is_read_once() {
    let root = tree(&[("m/a.yaml", b"1"), ("m/b.yaml", b"2")]);
    symlink("b.yaml", root.path().join("m/c.yaml")).unwrap();
    let expected = ["$/m/b.yaml = \"2\"", "$/m/a.yaml = \"1\""];
    check(root.path(), &["m/b.yaml", "m", "m/../m"], &expected);
}

#[test]
fn symlinks_to_files_and_folders_are_followed() {
    let root = tree(&[("m/x.txt", b"0"), ("elsewhere/a.yaml", b"1"), ("data/plain", b"2")]);
    symlink("../elsewhere", root.path().join("m/linked")).unwrap();
    symlink("../data/plain", root.path().join("m/b.yaml")).unwrap();
    let expected = ["$/m/b.yaml = \"2\"", "$/m/linked/a.yaml = \"1\""];
    check(root.path(), &["m"], &expected);
}

#[test]
fn a_loop_of_symlinks_is_named_and_left() {
    let root = tree(&[("m/a.yaml", b"1"), ("m/deep/b.yaml", b"2")]);
    symlink("../../m", root.path().join("m/deep/up")).unwrap();
    symlink(".", root.path().join("m/self")).unwrap();
    let expected = [
        "$/m/a.yaml = \"1\"",
        "$/m/deep/b.yaml = \"2\"",
        "$/m/deep/up:1:1: warning[symlink-loop]: leads back to `$/m`, which holds it; not followed",
        "$/m/self:1:1: warning[symlink-loop]: leads back to `$/m`, which holds it; not followed",
    ];
    check(root.path(), &["m"], &expected);
}

#[test]
fn two_links_to_one_folder_are_no_loop() {
    let root = tree(&[("shared/a.yaml", b"1"), ("m/x.md", b"")]);
    symlink("../shared", root.path().join("m/one")).unwrap();
    symlink("../shared", root.path().join("m/two")).unwrap();
    check(root.path(), &["m"], &["$/m/one/a.yaml = \"1\""]);
}

#[test]
fn a_mounted_config_map_comes_out_once() {
    let root = tree(&[("m/..2026_01/a.yaml", b"1")]);
    symlink("..2026_01", root.path().join("m/..data")).unwrap();
    symlink("..data/a.yaml", root.path().join("m/a.yaml")).unwrap();
    check(root.path(), &["m"], &["$/m/a.yaml = \"1\""]);
}

#[test]
fn a_broken_symlink_is_an_error_where_a_manifest_should_be() {
    let root = tree(&[("m/a.yaml", b"1")]);
    symlink("gone.yaml", root.path().join("m/b.yaml")).unwrap();
    symlink("gone", root.path().join("m/sub")).unwrap();
    symlink("c.yaml", root.path().join("m/c.yaml")).unwrap();
    let broken = "is a symlink to `gone.yaml`, which does not exist";
    let expected = [
        "$/m/a.yaml = \"1\"",
        &format!("$/m/b.yaml:1:1: error[unreadable-file]: {broken}"),
        "$/m/c.yaml:1:1: error[unreadable-file]: cannot be read: Too many levels of symbolic links (os error 40)",
        "$/m/sub:1:1: warning[broken-symlink]: is a symlink to `gone`, which does not exist",
    ];
    check(root.path(), &["m"], &expected);
    check(root.path(), &["m/b.yaml"], &[expected[1]]);
}

#[test]
fn an_empty_folder_is_a_warning() {
    let root = tree(&[("m/notes.txt", b"")]);
    let expected = "$/m:1:1: warning[empty-folder]: no manifest in this folder: \
                    looked for names ending in .yaml, .yml or .json";
    check(root.path(), &["m"], &[expected]);
}

#[test]
fn a_missing_path_names_what_looks_like_it_and_hides_nothing_else() {
    let root = tree(&[("manifests/policy.yaml", b"1")]);
    let expected = [
        "$/manifests/policy.yaml = \"1\"",
        "$/manifests/polcy.yaml:1:1: error[missing-file]: does not exist; did you mean `$/manifests/policy.yaml`?",
        "$/manifest/policy.yaml:1:1: error[missing-file]: does not exist; did you mean `$/manifests`?",
        "$/manifests/other:1:1: error[missing-file]: does not exist",
        "$/manifests/policy.yaml/x:1:1: error[missing-file]: does not exist; \
         `$/manifests/policy.yaml` is a file, not a folder",
    ];
    let inputs = ["manifests/polcy.yaml", "manifest/policy.yaml", "manifests/other", "manifests/policy.yaml/x", "manifests"];
    check(root.path(), &inputs, &expected);
}

#[test]
fn a_file_without_permission_is_an_error() {
    let root = tree(&[("m/a.yaml", b"1"), ("m/b.yaml", b"2")]);
    let secret = root.path().join("m/a.yaml");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let denied = "$/m/a.yaml:1:1: error[unreadable-file]: cannot be read: Permission denied (os error 13)";
    // Root may read everything, so for root this states that it does.
    match fs::File::open(&secret) {
        Err(_) => check(root.path(), &["m"], &["$/m/b.yaml = \"2\"", denied]),
        Ok(_) => check(root.path(), &["m"], &["$/m/a.yaml = \"1\"", "$/m/b.yaml = \"2\""]),
    }
}

#[test]
fn byte_order_marks_are_obeyed_and_dropped() {
    let root = tree(&[
        ("m/be.yaml", b"\xFE\xFF\x00a\xD8\x3D\xDE\x00"),
        ("m/le.yaml", b"\xFF\xFEa\x00\xE9\x00"),
        ("m/utf8.yaml", b"\xEF\xBB\xBFa: \xC3\xA9"),
    ]);
    let expected = ["$/m/be.yaml = \"a\u{1F600}\"", "$/m/le.yaml = \"a\u{e9}\"", "$/m/utf8.yaml = \"a: \u{e9}\""];
    check(root.path(), &["m"], &expected);
}

#[test]
fn what_is_not_text_is_an_error_at_its_first_bad_byte() {
    let root = tree(&[
        ("m/a-latin1.yaml", b"a: 1\nb: \xC3\xA9caf\xE9\n"),
        ("m/b-binary.yaml", b"\x7FELF\x02\x01\x00\x00\xFF"),
        ("m/c-bom-and-nul.yaml", b"\xEF\xBB\xBFa\n\x00"),
        ("m/d-lone-surrogate.yaml", b"\xFF\xFEa\x00\n\x00\x00\xD8b\x00"),
        ("m/e-odd.yaml", b"\xFE\xFF\x00a\x00"),
        ("m/f-utf32.yaml", b"\xFF\xFE\x00\x00a\x00\x00\x00"),
        ("m/g-cut.yaml", b"a: \xE2\x82"),
        ("m/h-fine.yaml", b"a: 1\n"),
    ]);
    let error = |at: &str, what: &str| {
        format!(
            "$/m/{at}: error[not-text]: {what}; nothing was read from this file; \
             save it as UTF-8, or take it out of the input"
        )
    };
    let expected = [
        "$/m/h-fine.yaml = \"a: 1\\n\"",
        &error("a-latin1.yaml:2:8", "byte 13 is not UTF-8"),
        &error("b-binary.yaml:1:7", "byte 6 is NUL: the file looks binary"),
        &error("c-bom-and-nul.yaml:2:1", "byte 5 is NUL: the file looks binary"),
        &error("d-lone-surrogate.yaml:2:1", "byte 6 is half of a UTF-16 pair"),
        &error("e-odd.yaml:1:2", "byte 4 is half of a UTF-16 unit: the file is cut short"),
        &error("f-utf32.yaml:1:1", "byte 2 is NUL: the file looks binary"),
        &error("g-cut.yaml:1:4", "byte 3 is not UTF-8"),
    ];
    check(root.path(), &["m"], &expected);
}

#[test]
fn a_text_longer_than_one_block_is_read_whole() {
    let long = "key: value\n".repeat(20_000);
    let root = tree(&[("long.yaml", long.as_bytes())]);
    let gathered = read(&[Input::Path(root.path().join("long.yaml"))]);
    assert!(gathered.texts.iter().map(|text| &*text.content).eq([long.as_str()]));
}

#[test]
fn a_named_pipe_is_read_when_named_and_skipped_in_a_folder() {
    let root = tree(&[("m/a.yaml", b"1")]);
    let pipe = root.path().join("m/pipe.yaml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let expected = [
        "$/m/a.yaml = \"1\"",
        "$/m/pipe.yaml:1:1: warning[special-file]: is a pipe, socket or device; skipped, \
         since only files are read from a folder",
    ];
    check(root.path(), &["m"], &expected);

    let mut writer = Command::new("sh").args(["-c", "printf 'b: 2' > \"$1\"", "sh"]).arg(&pipe).stdin(Stdio::null()).spawn().unwrap();
    let shown = shown(root.path(), &["m/pipe.yaml"]);
    // It has ended if the pipe was read, and must not outlive the test if not.
    drop(writer.kill());
    writer.wait().unwrap();
    assert_eq!(shown, "$/m/pipe.yaml = \"b: 2\"");
}

#[test]
fn the_pipe_of_a_process_substitution_is_read() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"a: 1").unwrap();
    drop(writer);
    let path = format!("/dev/fd/{}", reader.as_raw_fd());
    let texts = read(&[Input::from_arg(&path), Input::from_arg(&path)]).texts;
    let texts: Vec<(&str, &str)> = texts.iter().map(|it| (&*it.file, &*it.content)).collect();
    assert_eq!(texts, [(path.as_str(), "a: 1")]);
}

#[test]
fn a_socket_is_an_error_when_named_and_skipped_in_a_folder() {
    let root = tree(&[("m/a.yaml", b"1")]);
    let listener = UnixListener::bind(root.path().join("m/s.yaml")).unwrap();
    let expected = ["$/m/s.yaml:1:1: error[unreadable-file]: is a socket, not a file"];
    check(root.path(), &["m/s.yaml"], &expected);
    let shown = shown(root.path(), &["m"]);
    assert!(shown.contains("$/m/s.yaml:1:1: warning[special-file]"), "{shown}");
    drop(listener);
}

#[test]
fn a_name_that_is_not_utf8_is_read_all_the_same() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let root = tree(&[]);
    fs::write(root.path().join(OsStr::from_bytes(b"a\xFF.yaml")), b"1").unwrap();
    check(root.path(), &["."], &["$/./a\u{FFFD}.yaml = \"1\""]);
}
