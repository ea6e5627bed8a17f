//! Images that differ from those of the writer.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::FileExt as _,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use format::erofs::{canonical, crc32c};
use mountd::wire::Code;

use crate::scene::{Scene, Stop, image, image_with, play};

/// Sets the checksum of the superblock of an image with blocks of 4,096 bytes.
fn seal(image: &mut [u8]) {
    image[1028..1032].fill(0);
    let checksum = crc32c(!0, &image[1024..4096]);
    image[1028..1032].copy_from_slice(&checksum.to_le_bytes());
}

fn write(scene: &Scene, image: &[u8]) {
    fs::write(scene.at("mine/image"), image).expect("the user's own");
}

/// Each bit of each byte that is not zero, and a slice of the others. The kernel reads what the
/// service mounts without a complaint, and `fsck.erofs` too.
#[test]
fn a_flipped_image_is_refused_or_harmless() {
    testkit::need_program("fsck.erofs");
    let Some(mut stage) = play("images::a_flipped_image_is_refused_or_harmless", &[], |scene| {
        // Debian's `fsck.erofs` 1.5 knows only blocks of 4,096 bytes.
        let good = image_with(sys::user::effective_uid(), 0o644, 12);
        let (mut refused, mut harmless) = (0, 0);
        for bit in 1024 * 8..good.len() * 8 {
            if good[bit / 8] == 0 && bit % 211 != 0 {
                continue;
            }
            let mut flipped = good.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if !(1028..1032).contains(&(bit / 8)) {
                seal(&mut flipped);
            }
            write(scene, &flipped);
            match (canonical::check(&flipped), scene.mount_image()) {
                (_, Code::Image) => refused += 1,
                (Ok(_), Code::Done) => {
                    harmless += 1;
                    read_all(scene, &flipped);
                    assert_eq!(scene.unmount("mine/files"), Code::Done);
                }
                (checked, code) => panic!("bit {bit}: {code:?}, {checked:?}"),
            }
        }
        println!("{refused} refused, {harmless} mounted");
        assert!(refused > 500 && harmless > 100, "{refused} refused, {harmless} mounted");
    }) else {
        return;
    };
    assert!(stage.mounts().is_empty(), "{:?}", stage.mounts());
    assert!(stage.service.is_alive());
}

/// Reads everything that is mounted.
fn read_all(scene: &Scene, image: &[u8]) {
    let file = scene.at("mine/image");
    let mut check = std::process::Command::new("fsck.erofs");
    check.arg(format!("--device={}", scene.at("mine/blob").display())).arg(&file);
    let output = check.output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}, of {} bytes", image.len());
    // The permissions of a changed image may forbid it.
    let allowed = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let mut left = vec![scene.at("mine/files")];
    while let Some(dir) = left.pop() {
        let listed = fs::read_dir(&dir).map_err(allowed).into_iter().flatten();
        for path in listed.map(|entry| entry.expect("an entry").path()) {
            let Ok(found) = path.symlink_metadata().map_err(allowed) else { continue };
            if found.is_dir() {
                left.push(path);
            } else if found.is_symlink() {
                fs::read_link(path).map(drop).unwrap_or_else(allowed);
            } else if found.is_file() && found.len() < 1 << 20 {
                fs::read(path).map(drop).unwrap_or_else(allowed);
            }
        }
    }
}

#[test]
fn setuid_programs_and_other_owners_are_refused() {
    let Some(stage) = play("images::setuid_programs_and_other_owners_are_refused", &[], |scene| {
        let own = sys::user::effective_uid();
        for (uid, permissions) in [(own, 0o4755), (own, 0o2755), (own, 0o1755), (0, 0o4777), (0, 0o644)] {
            write(scene, &image(uid, permissions));
            assert_eq!(scene.mount_image(), Code::Image, "{uid} {permissions:o}");
        }
        write(scene, &image(own, 0o600));
        assert_eq!(scene.mount_image(), Code::Done);
        assert_eq!(scene.unmount("mine/files"), Code::Done);
    }) else {
        return;
    };
    assert!(stage.mounts().is_empty(), "{:?}", stage.mounts());
}

/// The service reads the image once. A user who writes to it meanwhile changes nothing.
#[test]
fn an_image_that_is_being_written_is_checked_as_it_was_read() {
    let test = "images::an_image_that_is_being_written_is_checked_as_it_was_read";
    let Some(mut stage) = play(test, &[], |scene| {
        static STOP: AtomicBool = AtomicBool::new(false);
        let good = image(sys::user::effective_uid(), 0o644);
        let file = fs::File::options().write(true).open(scene.at("mine/image")).expect("the user's own");
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut at = 0;
                while !STOP.load(Ordering::Relaxed) {
                    at = (at * 31 + 7) % good.len();
                    file.write_all_at(&[0xff], at as u64).expect("written");
                    file.write_all_at(&good[at..=at], at as u64).expect("written");
                }
            });
            let _stop = Stop(&STOP);
            for _ in 0..200 {
                if scene.mount_image() == Code::Done {
                    let found = fs::read_to_string(scene.at("mine/files/file")).expect("it is whole");
                    assert_eq!(found, "content\n");
                    assert_eq!(scene.unmount("mine/files"), Code::Done);
                }
            }
        });
    }) else {
        return;
    };
    assert!(stage.mounts().is_empty(), "{:?}", stage.mounts());
    assert!(stage.service.is_alive());
}

/// The mounted image is a copy: what happens to the file afterwards changes nothing.
#[test]
fn a_mounted_image_stays_as_it_was_checked() {
    let Some(stage) = play("images::a_mounted_image_stays_as_it_was_checked", &[], |scene| {
        assert_eq!(scene.mount_image(), Code::Done);
        write(scene, &[0xff; 4096]);
        fs::remove_file(scene.at("mine/image")).expect("removed");
        assert_eq!(fs::read_to_string(scene.at("mine/files/dir/deep")).expect("read"), "content\n");
        // The contents are the user's own: a cut blob is an error of a read, and nothing more.
        fs::write(scene.at("mine/blob"), "").expect("written");
        let _ = fs::read(scene.at("mine/files/dir/gone"));
        assert_eq!(scene.unmount("mine/files"), Code::Done);
    }) else {
        return;
    };
    assert!(stage.mounts().is_empty(), "{:?}", stage.mounts());
}
