//! Remotes that send wrong bytes: each kind of file, each kind of damage. A pull ends with an error
//! that names file and remote, and what it left is no obstacle for a pull from a sound remote.

use super::*;

/// The kinds of files of a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Manifest,
    Pack,
    Table,
    Segment,
}

/// A damage of a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Bit,
    Short,
    Empty,
    Gone,
    Other,
}

fn spoil(path: &Path, damage: Damage) {
    let mut bytes = fs::read(path).expect("read");
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o644));
    match damage {
        Damage::Bit => {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        Damage::Short => bytes.truncate(bytes.len() / 2),
        Damage::Empty => bytes.clear(),
        Damage::Gone => return fs::remove_file(path).expect("removed"),
        Damage::Other => bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1)),
    }
    fs::write(path, bytes).expect("written");
}

fn copied(remote: &Remote, to: &Path) -> Remote {
    let _ = fs::remove_dir_all(to);
    let from = remote.directory().expect("a directory");
    assert!(Command::new("cp").arg("-r").args([from, to]).status().expect("cp runs").success());
    remote_at(to)
}

#[test]
fn wrong_bytes_in_any_file_are_an_error_and_never_a_file() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let head = commit(&source, "HEAD");
    Host::at(source.path.clone()).push(&remote, head, &push::Options::default());
    let manifest = base_transfer::records::manifest(&remote, &head).expect("read").expect("there").manifest;
    let paths = [
        (File::Manifest, format!("commits/{head}")),
        (File::Pack, manifest.packs[0].file.digest.path()),
        (File::Table, manifest.tables[0].file.digest.path()),
        (File::Segment, manifest.tables[0].segment.digest.path()),
    ];
    for (at, (file, path)) in paths.iter().enumerate() {
        for damage in [Damage::Bit, Damage::Short, Damage::Empty, Damage::Gone, Damage::Other] {
            let spoiled = copied(&remote, &sandbox.path().join("spoiled"));
            spoil(&spoiled.directory().expect("a directory").join(path), damage);
            let host = Host::new(&sandbox, &format!("host-{at}-{damage:?}"));
            let Err(error) = host.pull(&spoiled, head) else {
                // A manifest may lose nothing but its time to a bit.
                assert!(matches!((file, damage), (File::Manifest, Damage::Bit)), "{file:?} {damage:?}");
                continue;
            };
            let message = error.to_string();
            let names = |text: &str| message.contains(text);
            assert!(names("spoiled"), "{file:?} {damage:?}: {message}");
            let id = head.to_string();
            assert!(names(path) || names(&id), "{file:?} {damage:?}: {message}");
            match (file, damage) {
                (File::Manifest, Damage::Gone) => assert!(matches!(error, Error::NoBase { .. }), "{error}"),
                (File::Manifest, _) => assert!(matches!(error, Error::Record { .. }), "{error}"),
                (_, Damage::Gone) => assert!(matches!(error, Error::Lacks { .. }), "{error}"),
                (_, Damage::Short | Damage::Empty) => assert!(matches!(error, Error::Remote(_)), "{error}"),
                (_, Damage::Bit | Damage::Other) => {
                    assert!(matches!(error, Error::Damaged { .. }), "{error}")
                }
            }
            if matches!(damage, Damage::Bit) {
                let (base, _) = host.pull(&remote, head).expect("pulled");
                check(&source, &host, &base, head);
            }
        }
    }
}

#[test]
fn a_remote_that_names_other_files_is_refused() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let first = commit(&source, "HEAD");
    let sender = Host::at(source.path.clone());
    sender.push(&remote, first, &push::Options::default());
    let second = change(&source, 5, 1);
    sender.push(&remote, second, &push::Options::default());
    let record =
        |commit: &ObjectId| remote.directory().expect("a directory").join(format!("commits/{commit}"));
    let of_first = fs::read(record(&first)).expect("read");
    let of_second = fs::read(record(&second)).expect("read");
    let pulled = |name: &str, bytes: &[u8]| {
        fs::write(record(&second), bytes).expect("written");
        Host::new(&sandbox, name).pull(&remote, second).expect_err("refused")
    };
    // The manifest of yesterday.
    let error = pulled("yesterday", &of_first);
    assert!(matches!(error, Error::WrongRecord { .. }), "{error}");
    // Yesterday's manifest with today's name.
    let renamed = of_first.replace(first.to_string(), second.to_string());
    let error = pulled("renamed", &renamed);
    assert!(matches!(error, Error::Incomplete { .. }), "{error}");
    // Another tree.
    let tree = |name: &str| source.git(&["rev-parse", &format!("{name}^{{tree}}")]).stdout.trim().to_owned();
    let other = of_second.replace(tree("HEAD"), tree("HEAD~1"));
    let error = pulled("tree", &other);
    assert!(matches!(error, Error::WrongRecord { .. }), "{error}");
    // A segment of other contents behind a table.
    let manifest = base_transfer::records::manifest(&remote, &first).expect("read").expect("there").manifest;
    let segment = manifest.tables[0].segment;
    let table = manifest.tables[0].file;
    let swapped = of_first.replace(segment.digest.to_string(), table.digest.to_string());
    fs::write(record(&first), swapped).expect("written");
    let error = Host::new(&sandbox, "swapped").pull(&remote, first).expect_err("refused");
    assert!(matches!(error, Error::Record { .. }), "a file is named twice: {error}");
    // Sizes from nowhere take no memory.
    let large = of_first.replace(format!("\"size\": {}", table.size), format!("\"size\": {}", 1_u64 << 40));
    fs::write(record(&first), large).expect("written");
    let error = Host::new(&sandbox, "sizes").pull(&remote, first).expect_err("refused");
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    // A judge of signatures is asked first.
    fs::write(record(&first), of_first).expect("written");
    let refuse = |_: &[u8], signature: Option<&[u8]>| match signature {
        None => Err("it has no signature".to_owned()),
        Some(_) => Ok(()),
    };
    let host = Host::new(&sandbox, "signed");
    let options = pull::Options { verify: Some(&refuse), ..pull::Options::default() };
    let error = host.pull_with(&remote, first, &options, &|_| {}).expect_err("refused");
    assert!(matches!(error, Error::Untrusted { .. }), "{error}");
    fs::remove_file(record(&second)).expect("removed");
    let sign = |_: &[u8]| Ok(b"-----BEGIN SSH SIGNATURE-----\nx\n-----END SSH SIGNATURE-----\n".to_vec());
    sender.push(&remote, second, &push::Options { sign: Some(&sign), ..push::Options::default() });
    let (base, _) = host.pull_with(&remote, second, &options, &|_| {}).expect("pulled");
    check(&source, &host, &base, second);
}

#[test]
fn another_push_mends_a_remote_that_lost_a_file() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let sender = Host::at(source.path.clone());
    let options = push::Options { branch: Some("main".into()), ..push::Options::default() };
    let first = commit(&source, "HEAD");
    sender.push(&remote, first, &options);
    let root = remote.directory().expect("a directory").to_owned();
    let manifest = base_transfer::records::manifest(&remote, &first).expect("read").expect("there").manifest;
    for (number, file) in manifest.files().enumerate() {
        fs::remove_file(root.join(file.digest.path())).expect("removed");
        let report = sender.push(&remote, first, &options);
        assert!(!report.was_there && report.bytes > 0, "{report:?}");
        let host = Host::new(&sandbox, &format!("host-{number}"));
        let (base, _) = host.pull(&remote, first).expect("pulled");
        check(&source, &host, &base, first);
    }
    // A damaged manifest is replaced, and one of a newer program is not.
    let record = root.join(format!("commits/{first}"));
    fs::write(&record, "{").expect("written");
    assert!(!sender.push(&remote, first, &options).was_there);
    Host::new(&sandbox, "mended").pull(&remote, first).expect("pulled");
    let newer = fs::read(&record).expect("read").replace("\"version\": 1", "\"version\": 2");
    fs::write(&record, &newer).expect("written");
    let pushed = sender.with(&remote, &|_| {}, |context| push::push(context, first, &options));
    assert!(matches!(pushed, Err(Error::Record { .. })), "{pushed:?}");
    assert_eq!(fs::read(&record).expect("read"), newer);
}
