//! Each test runs with the kernel's capabilities and with the fallback.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::symlink,
};

use rustix::io::Errno;

use crate::{Capabilities, Dir, DirMut, FileType, Listing};

fn with_and_without_openat2(test: impl Fn(&std::path::Path, DirMut)) {
    for forced in [false, true] {
        let temp = tempfile::tempdir().expect("a directory for tests");
        let root = temp.path().join("root");
        fs::create_dir(&root).expect("made");
        fs::create_dir(temp.path().join("outside")).expect("made");
        fs::write(temp.path().join("outside/file"), b"outside").expect("written");
        let dir = if forced { Dir::open_with(&root, Capabilities::NONE) } else { Dir::open(&root) };
        test(&root, DirMut::of(dir.expect("opens")));
        assert_eq!(fs::read(temp.path().join("outside/file")).expect("still there"), b"outside");
        assert_eq!(fs::read_dir(temp.path().join("outside")).expect("still there").count(), 1);
    }
}

fn errno<T>(result: std::io::Result<T>) -> Errno {
    let error = result.err().expect("must be refused");
    Errno::from_io_error(&error).expect("carries the error number")
}

#[test]
fn creates_reads_and_removes() {
    with_and_without_openat2(|root, dir| {
        dir.create_dir(b"a").expect("made");
        dir.create_dir(b"a/b").expect("made");
        dir.create_new(b"a/b/file", true).expect("created").write_all(b"content").expect("written");
        assert_eq!(errno(dir.create_new(b"a/b/file", false)), Errno::EXIST);
        let stat = dir.stat(b"a/b/file").expect("stats").expect("is there");
        assert_eq!((stat.file_type, stat.size, stat.is_executable()), (FileType::File, 7, true));
        let mut file = dir.open_file(b"a/b/file").expect("opens");
        assert_eq!(crate::stat_of(&file).expect("stats"), stat);
        let mut content = String::new();
        file.read_to_string(&mut content).expect("reads");
        assert_eq!(content, "content");

        dir.symlink(b"nowhere/at all", b"a/link").expect("linked");
        assert_eq!(dir.read_link(b"a/link").expect("reads"), b"nowhere/at all");
        assert_eq!(dir.stat(b"a/link").expect("stats").expect("is there").file_type, FileType::Symlink);

        let below = dir.open_dir(b"a").expect("opens");
        below.rename(b"b/file", b"moved").expect("renamed");
        let mut names = below.list().expect("lists");
        names.sort_by(|left, right| left.0.cmp(&right.0));
        let expected = [("b", FileType::Directory), ("link", FileType::Symlink), ("moved", FileType::File)];
        assert_eq!(names, expected.map(|(name, kind)| (name.as_bytes().to_vec(), kind)));
        assert!(below.open_dir(b"b").expect("opens").is_empty().expect("reads"));
        assert!(!below.is_empty().expect("reads"));

        assert_eq!(errno(dir.remove_file(b"a/b")), Errno::ISDIR);
        assert_eq!(errno(dir.remove_dir(b"a")), Errno::NOTEMPTY);
        dir.remove_dir(b"a/b").expect("removed");
        dir.remove_file(b"a/link").expect("removed");
        dir.remove_file(b"a/moved").expect("removed");
        below.sync().expect("synced");
        dir.remove_dir(b"a").expect("removed");
        assert_eq!(fs::read_dir(root).expect("reads").count(), 0);
    });
}

#[test]
fn refuses_paths_that_leave_the_directory() {
    with_and_without_openat2(|root, dir| {
        symlink("../outside", root.join("leading")).expect("linked");
        fs::create_dir(root.join("real")).expect("made");
        symlink("../../outside", root.join("real/deep")).expect("linked");
        symlink("../outside/file", root.join("last")).expect("linked");
        for leading in ["leading", "real/deep"] {
            let path = format!("{leading}/file");
            let path = path.as_bytes();
            let refused = |errno| assert!(matches!(errno, Errno::LOOP | Errno::NOTDIR), "{errno}");
            refused(errno(dir.create_new(format!("{leading}/new").as_bytes(), false)));
            refused(errno(dir.open_file(path)));
            refused(errno(dir.create_dir(format!("{leading}/new").as_bytes())));
            refused(errno(dir.remove_file(path)));
            refused(errno(dir.remove_dir(path)));
            refused(errno(dir.symlink(b"x", format!("{leading}/new").as_bytes())));
            refused(errno(dir.read_link(path)));
            refused(errno(dir.rename(b"last", path)));
            refused(errno(dir.rename(path, b"stolen")));
            refused(errno(dir.open_dir(leading.as_bytes())));
            assert_eq!(dir.stat(path).expect("absent"), None);
        }
        assert_eq!(errno(dir.open_file(b"last")), Errno::LOOP);
        assert_eq!(errno(dir.create_new(b"last", false)), Errno::EXIST);
        for path in
            ["..", "../outside/file", "real/../../outside/file", "/etc/passwd", "", ".", "real/", "real//x"]
        {
            assert_eq!(errno(dir.open_file(path.as_bytes())), Errno::INVAL, "{path}");
            assert_eq!(errno(dir.remove_file(path.as_bytes())), Errno::INVAL, "{path}");
            assert_eq!(errno(dir.stat(path.as_bytes())), Errno::INVAL, "{path}");
        }
        assert_eq!(errno(dir.open_file(b"nul\0inside")), Errno::INVAL);
    });
}

#[test]
fn stat_of_a_missing_path_is_none() {
    with_and_without_openat2(|root, dir| {
        fs::write(root.join("file"), b"").expect("written");
        for path in ["missing", "missing/below", "file/below"] {
            assert_eq!(dir.stat(path.as_bytes()).expect("absent"), None, "{path}");
        }
    });
}

#[test]
fn large_directories_are_read_to_the_end_with_one_buffer() {
    with_and_without_openat2(|root, dir| {
        let mut expected: Vec<_> = (0..3000).map(|index| format!("name {index:0100}").into_bytes()).collect();
        for name in &expected {
            dir.create_new(name, false).expect("created");
        }
        fs::create_dir(root.join("empty")).expect("made");
        expected.push(b"empty".to_vec());
        expected.sort();
        let mut listing = Listing::default();
        for _ in 0..2 {
            let mut names = Vec::new();
            let read = listing.read(&dir, |entry| {
                names.push(entry.name.to_vec());
                Ok::<_, std::io::Error>(())
            });
            read.expect("reads");
            names.sort();
            assert_eq!(names, expected);
        }
    });
}

#[test]
fn accepts_every_byte_but_nul_and_slash_in_names() {
    with_and_without_openat2(|_, dir| {
        for byte in (1..=255u8).filter(|byte| !b"/.".contains(byte)) {
            dir.create_new(&[byte], false).expect("created");
            assert!(dir.stat(&[byte]).expect("stats").is_some());
        }
        assert_eq!(dir.list().expect("lists").len(), 253);
    });
}
