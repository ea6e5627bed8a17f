//! Images as the kernel and `fsck.erofs` see them.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    process::Command,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::erofs::{
    Place,
    write::{Image, Layout, Node, Options},
};
use testkit::ErofsImage;

const TIME: (u64, u32) = (1_700_000_000, 123_456_789);

/// The result of `lstat`, and the target or the content.
#[derive(Debug, PartialEq)]
struct Facts {
    ino: u64,
    mode: u32,
    links: u64,
    size: u64,
    owner: (u32, u32),
    mtime: (i64, i64),
    ctime: (i64, i64),
    content: Vec<u8>,
}

/// A tree with all difficult cases, on two devices.
struct Case {
    block_bits: u32,
    owner: (u32, u32),
    /// State a wrong size of a device, so that its blocks do not fit into one space of block
    /// numbers.
    chunked: bool,
    huge_directory: usize,
}

struct Built {
    layout: Layout,
    nodes: BTreeMap<BString, (Node, u32, Vec<u8>)>,
    dir: tempfile::TempDir,
    devices: Vec<PathBuf>,
}

fn build(case: &Case) -> Built {
    // The kernel does not mount an image on tmpfs.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for tests");
    let block = 1u64 << case.block_bits;
    let devices: Vec<PathBuf> = ["one", "two"].map(|name| dir.path().join(name)).into();
    let files: Vec<fs::File> = devices.iter().map(|path| fs::File::create(path).expect("created")).collect();
    let lengths = [5000u32, if case.chunked { u32::MAX } else { (8u64 << 30 >> case.block_bits) as u32 }];
    for (file, length) in files.iter().zip(lengths) {
        file.set_len(u64::from(length) * block).expect("a sparse file");
    }
    let options = Options {
        block_bits: case.block_bits,
        uuid: *b"sapwood tests \x01\x02",
        time: TIME,
        uid: case.owner.0,
        gid: case.owner.1,
        devices: lengths.into(),
    };
    let mut image = Image::new(options, 0o755);
    let mut nodes = BTreeMap::from([(BString::default(), (0, 0o40755, Vec::new()))]);
    let join = |dir: &BStr, name: &[u8]| {
        let mut path = dir.to_owned();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    };
    let long = vec![b'x'; 255];
    for name in [&b"dir"[..], b"huge", b"empty", &long] {
        let node = image.add_directory(0, name.into(), 0o750).expect("added");
        nodes.insert(name.into(), (node, 0o40750, Vec::new()));
    }
    // Names that sort around `.` and `..`, and bytes that are not UTF-8.
    for name in [&b"!"[..], b"-", b"...", b".a", b"\xff\x01", b"a b,c\\d\n"] {
        let node = image.add_file(nodes[BStr::new("dir")].0, name.into(), 0o644, 0, None).expect("added");
        nodes.insert(join("dir".into(), name), (node, 0o100644, Vec::new()));
    }
    for length in [1, 100, 470, 480, 481, 512, 1500, 4000, 4095] {
        let target = vec![b't'; length];
        let name = format!("link{length}");
        let node = image.add_symlink(0, name.as_bytes().into(), target.as_bstr()).expect("added");
        nodes.insert(name.into(), (node, 0o120777, target));
    }
    // Contents of all sizes around a block, on both devices, at odd offsets.
    let mut next = [3u32, 7];
    for (number, size) in [1u64, 511, 512, 513, 4095, 4096, 4097, 100_000].into_iter().enumerate() {
        let device = number % 2;
        let content: Vec<u8> = (0..size).map(|at| (at * 7 + number as u64) as u8).collect();
        files[device].write_all_at(&content, u64::from(next[device]) * block).expect("written");
        let place = Place { device: device as u16, block: next[device] };
        let name = format!("file{size}");
        let node = image.add_file(0, name.as_bytes().into(), 0o755, size, Some(place)).expect("added");
        nodes.insert(name.into(), (node, 0o100755, content));
        next[device] += size.div_ceil(block) as u32 + 1;
    }
    for number in 0..case.huge_directory {
        let name = format!("{number:x}-{}", "y".repeat(number % 40));
        let dir = nodes[BStr::new("huge")].0;
        let node = image.add_file(dir, name.as_bytes().into(), 0o644, 0, None).expect("added");
        nodes.insert(join("huge".into(), name.as_bytes()), (node, 0o100644, Vec::new()));
    }
    let deep = (0..60).fold(BString::from("dir"), |above, _| {
        let node = image.add_directory(nodes[&above].0, long.as_bstr(), 0o755).expect("added");
        let path = join(above.as_bstr(), &long);
        nodes.insert(path.clone(), (node, 0o40755, Vec::new()));
        path
    });
    assert!(deep.len() > 15_000);
    let big = 5u64 << 30;
    files[1].write_all_at(b"end", u64::from(next[1]) * block + big - 3).expect("written");
    let place = Place { device: 1, block: next[1] };
    let node = image.add_file(0, "big".into(), 0o644, big, Some(place)).expect("added");
    nodes.insert("big".into(), (node, 0o100644, b"end".into()));

    let layout = image.lay_out().expect("fits");
    let mut bytes = Vec::new();
    let emitted: Result<(), Infallible> = layout.emit(&mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    emitted.expect("a vector takes everything");
    fs::write(dir.path().join("image"), bytes).expect("written");
    Built { layout, nodes, dir, devices }
}

/// Reads a whole tree, but of a large file only its last bytes.
fn examine(point: &Path, path: &Path, found: &mut BTreeMap<BString, Facts>) {
    let stat = fs::symlink_metadata(path).expect("examined");
    let relative = path.strip_prefix(point).expect("below").as_os_str().as_bytes();
    let content = if stat.is_symlink() {
        fs::read_link(path).expect("a link").as_os_str().as_bytes().to_vec()
    } else if stat.is_dir() {
        Vec::new()
    } else if stat.len() > 1 << 30 {
        let mut end = vec![0; 3];
        let file = fs::File::open(path).expect("opened");
        file.read_exact_at(&mut end, stat.len() - 3).expect("read");
        end
    } else {
        fs::read(path).expect("read")
    };
    let facts = Facts {
        ino: stat.ino(),
        mode: stat.mode(),
        links: stat.nlink(),
        size: stat.len(),
        owner: (stat.uid(), stat.gid()),
        mtime: (stat.mtime(), stat.mtime_nsec()),
        ctime: (stat.ctime(), stat.ctime_nsec()),
        content,
    };
    found.insert(relative.into(), facts);
    // Paths that are too long for a system call are checked by `fsck.erofs`.
    if stat.is_dir() && path.as_os_str().len() < 3800 {
        let names: Vec<_> =
            fs::read_dir(path).expect("listed").map(|entry| entry.expect("an entry")).collect();
        for entry in &names {
            assert_eq!(std::os::unix::fs::DirEntryExt::ino(entry), {
                let stat = entry.metadata().expect("examined");
                stat.ino()
            });
            examine(point, &entry.path(), found);
        }
    }
}

fn check(case: &Case) {
    let built = build(case);
    let point = built.dir.path().join("point");
    fs::create_dir(&point).expect("created");
    let Some(_mounted) = ErofsImage::mount(&built.dir.path().join("image"), &built.devices, &point) else {
        return;
    };
    let mut found = BTreeMap::new();
    examine(&point, &point, &mut found);
    let directories = built.nodes.iter().filter(|(_, (_, mode, _))| mode & 0o170000 == 0o40000);
    let mut links: BTreeMap<BString, u64> = directories.map(|(path, _)| (path.clone(), 2)).collect();
    for path in links.keys().cloned().collect::<Vec<_>>() {
        if !path.is_empty() {
            let above = path.rfind_byte(b'/').map_or(BStr::new(""), |slash| path[..slash].as_bstr());
            *links.get_mut(above).expect("a directory") += 1;
        }
    }
    let time = (TIME.0 as i64, i64::from(TIME.1));
    let expected: BTreeMap<BString, Facts> = built
        .nodes
        .iter()
        .filter(|(path, _)| found.contains_key(*path) || path.len() < 3000)
        .map(|(path, (node, mode, content))| {
            let facts = Facts {
                ino: built.layout.nid(*node),
                mode: *mode,
                links: links.get(path).copied().unwrap_or(1),
                size: built.layout.size(*node),
                owner: case.owner,
                mtime: time,
                ctime: time,
                content: content.clone(),
            };
            (path.clone(), facts)
        })
        .collect();
    assert_eq!(found.len(), expected.len());
    for (path, facts) in &expected {
        assert_eq!(found.get(path), Some(facts), "{path}");
    }
}

#[test]
fn the_kernel_finds_every_file_with_its_stat_data_and_content() {
    for block_bits in [9, 12] {
        for (owner, chunked) in [((0, 0), false), ((100_000, 7), true)] {
            check(&Case { block_bits, owner, chunked, huge_directory: 3000 });
        }
    }
}

#[test]
fn the_kernel_finds_every_file_of_a_huge_directory() {
    check(&Case { block_bits: 9, owner: (0, 0), chunked: false, huge_directory: 100_000 });
}

/// Debian's `fsck.erofs` 1.5 supports only blocks of 4,096 bytes.
#[test]
fn fsck_finds_no_flaw() {
    if !testkit::has_program("fsck.erofs") {
        return;
    }
    for chunked in [false, true] {
        let built = build(&Case { block_bits: 12, owner: (0, 0), chunked, huge_directory: 100_000 });
        let devices = built.devices.iter().map(|path| format!("--device={}", path.display()));
        let run = Command::new("fsck.erofs").args(devices).arg(built.dir.path().join("image")).output();
        let output = run.expect("started");
        assert!(output.status.success(), "{output:?}");
    }
}
