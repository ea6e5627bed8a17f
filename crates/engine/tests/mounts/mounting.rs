//! Mounting and unmounting with root.

use std::{
    fs,
    process::{Command, Stdio},
};

use engine::workspace::{
    backend::{self, Backend, Busy, Door, Error, Mounted, image},
    record::Durability,
};

use crate::{Check, place::Place};

pub(crate) const CHECKS: &[Check] = &[
    ("an_overlay_shows_base_and_upper_layer", an_overlay_shows_base_and_upper_layer),
    (
        "an_image_is_mounted_once_and_unmounted_when_unused",
        an_image_is_mounted_once_and_unmounted_when_unused,
    ),
    ("another_image_at_the_mount_point_is_refused", another_image_at_the_mount_point_is_refused),
    ("any_name_of_a_layer_works", any_name_of_a_layer_works),
    ("a_failed_mount_leaves_nothing", a_failed_mount_leaves_nothing),
    ("busy_names_the_processes", busy_names_the_processes),
    ("an_upper_layer_is_mounted_once", an_upper_layer_is_mounted_once),
    ("a_volatile_mount_survives_everything_but_a_crash", a_volatile_mount_survives_everything_but_a_crash),
    ("another_host_is_noticed", another_host_is_noticed),
    ("another_namespace_is_noticed", another_namespace_is_noticed),
    ("a_base_is_not_unmounted_below_a_new_workspace", a_base_is_not_unmounted_below_a_new_workspace),
    ("a_discarded_workspace_is_gone_at_once", a_discarded_workspace_is_gone_at_once),
    ("an_unused_copy_of_a_mount_does_no_harm", an_unused_copy_of_a_mount_does_no_harm),
];

fn an_overlay_shows_base_and_upper_layer() {
    need_root!();
    let mut place = Place::new();
    let frozen = place.root().join("frozen");
    fs::create_dir_all(frozen.join("node_modules")).expect("made");
    fs::write(frozen.join("node_modules/x"), "frozen").expect("written");
    place.layers.frozen = vec![frozen];
    assert_eq!(place.state(Backend::Overlay), Mounted::No);
    assert_eq!(place.mount(Backend::Overlay).expect("mounted"), Mounted::Here);
    assert_eq!(place.mount(Backend::Overlay).expect("it is mounted"), Mounted::Here);
    assert_eq!(place.state(Backend::Overlay), Mounted::Here);
    assert_eq!(fs::read(place.top("node_modules/x")).expect("read"), b"frozen");
    fs::write(place.top("file"), "changed").expect("written");
    fs::remove_file(place.top("dir/one")).expect("removed");
    fs::rename(place.top("deep"), place.top("moved")).expect("redirect_dir is on");
    let upper = sys::Dir::open(&place.layers.site.upper).expect("opened");
    assert!(sys::xattr::is_whiteout(&upper, b"dir/one").expect("a stat"));
    assert!(sys::xattr::is_whiteout(&upper, b"deep").expect("a stat"));
    let redirect = sys::xattr::get_in(&upper, b"moved", c"trusted.overlay.redirect").expect("read");
    assert_eq!(redirect.as_deref(), Some(&b"deep"[..]));
    let mount = sys::mount_at(&place.layers.site.top).expect("known").expect("mounted");
    let lower: Vec<_> = place.layers.frozen.iter().cloned().chain([place.layers.base.files()]).collect();
    assert_eq!(mount.lower_layers(), lower);
    place.unmount(Backend::Overlay).expect("nobody uses it");
    place.unmount(Backend::Overlay).expect("nothing to do");
    assert_eq!(place.state(Backend::Overlay), Mounted::No);
    assert!(!place.layers.site.state.join("mounted").exists());
    place.mount(Backend::Overlay).expect("mounted again");
    assert_eq!(fs::read(place.top("file")).expect("read"), b"changed");
    assert!(place.top("moved/a/b/c/four").exists() && !place.top("deep").exists());
}

fn an_image_is_mounted_once_and_unmounted_when_unused() {
    need_root!();
    let one = Place::new().with_image();
    let mut two = Place::new();
    two.layers.base = one.layers.base.clone();
    for place in [&one, &two] {
        assert_eq!(place.mount(Backend::Image).expect("mounted"), Mounted::Here);
        assert_eq!(fs::read(place.top("dir/one")).expect("read"), b"content of dir/one\n");
        fs::write(place.top("dir/one"), "new").expect("written");
    }
    let mounts = sys::mounts().expect("read");
    assert_eq!(mounts.iter().filter(|mount| mount.point == one.layers.base.files()).count(), 1);
    let image = mounts.iter().find(|mount| mount.point == one.layers.base.files()).expect("mounted");
    assert_eq!(image.source, one.layers.base.image(), "no loop device");
    one.unmount(Backend::Image).expect("nobody uses it");
    assert!(!image::unmount_if_unused(&one.layers.base, &Door::Own).expect("the other uses it"));
    assert!(image::is_mounted(&one.layers.base).expect("known"));
    two.unmount(Backend::Image).expect("nobody uses it");
    assert!(image::unmount_if_unused(&one.layers.base, &Door::Own).expect("unused"));
    assert!(image::unmount_if_unused(&one.layers.base, &Door::Own).expect("nothing to do"));
    assert!(!image::is_mounted(&one.layers.base).expect("known"));
    assert!(fs::read_dir(one.layers.base.files()).expect("a directory").next().is_none());
}

fn another_image_at_the_mount_point_is_refused() {
    need_root!();
    let (place, other) = (Place::new().with_image(), Place::new().with_image());
    let files = place.layers.base.files();
    sys::mount::erofs(&other.layers.base.image(), &other.layers.base.devices)
        .expect("made")
        .attach(&files)
        .expect("attached");
    let refused = place.mount(Backend::Image).expect_err("it is not the image");
    assert!(matches!(refused, Error::OtherBase { .. }), "{refused}");
    assert!(refused.advice().expect("there is a way out").contains("umount"));
    sys::mount::unmount(&files, sys::mount::Unmount::Plain).expect("unused");
    // A new image replaces the old one under the same name.
    place.mount(Backend::Image).expect("mounted");
    place.unmount(Backend::Image).expect("unused");
    fs::rename(other.layers.base.image(), place.layers.base.image()).expect("replaced");
    let refused = place.mount(Backend::Image).expect_err("the old image is mounted");
    assert!(matches!(refused, Error::OtherBase { .. }), "{refused}");
}

fn any_name_of_a_layer_works() {
    need_root!();
    const STRANGE: &str = "a:b,c\\d e\tf\\:g\\,h=i+j";
    let above = tempfile::tempdir().expect("made");
    let long = above.path().join(STRANGE).join("x".repeat(200)).join("y".repeat(200));
    fs::create_dir_all(&long).expect("made");
    for backend in [Backend::Overlay, Backend::Image] {
        let mut place = Place::below(&long);
        if backend == Backend::Image {
            place = place.with_image();
            let base = &mut place.layers.base;
            let dir = base.dir.join(STRANGE).join("x".repeat(200)).join("y".repeat(200));
            let blobs = dir.join("blobs");
            fs::create_dir_all(dir.join("files")).expect("made");
            fs::rename(&base.devices[0], &blobs).expect("renamed");
            fs::rename(base.image(), dir.join("image")).expect("renamed");
            (base.dir, base.devices) = (dir, vec![blobs]);
        }
        assert_eq!(place.mount(backend).expect("mounted"), Mounted::Here);
        fs::write(place.top("file"), "changed").expect("written");
        let mount = sys::mount_at(&place.layers.site.top).expect("known").expect("mounted");
        assert!(mount.has_upper(&place.layers.site.upper), "{mount:?}");
        assert_eq!(place.state(backend), Mounted::Here);
        assert!(place.layers.site.upper.join("file").exists());
        place.unmount(backend).expect("unused");
        assert!(image::unmount_if_unused(&place.layers.base, &Door::Own).expect("unused"));
    }
    // The mount call for older kernels, in which all names must fit into one page.
    let place = Place::below(&above.path().join(STRANGE));
    let files = place.layers.base.files();
    let overlay = sys::mount::Overlay {
        lower: vec![&files],
        data: None,
        upper: &place.layers.site.upper,
        work: &place.layers.site.work,
        attributes: sys::mount::Attributes::Trusted,
        durability: sys::mount::Durability::Synced,
    };
    sys::mount::overlay_by_names(&overlay, &place.layers.site.top).expect("mounted");
    assert_eq!(place.state(Backend::Overlay), Mounted::Here);
    let mount = sys::mount_at(&place.layers.site.top).expect("known").expect("mounted");
    assert_eq!(mount.lower_layers(), [files]);
    fs::write(place.top("file"), "changed").expect("written");
    assert!(place.layers.site.upper.join("file").exists());
}

fn a_failed_mount_leaves_nothing() {
    need_root!();
    let fails = |place: &Place, backend: Backend| {
        let error = place.mount(backend).expect_err("it cannot work");
        let left = sys::mounts().expect("read");
        let below = |mount: &&sys::Mount| mount.point.starts_with(&place.layers.site.top);
        assert_eq!(left.iter().filter(below).count(), 0);
        assert!(!place.layers.site.state.join("mounted").exists());
        assert_eq!(place.state(backend), Mounted::No);
        error
    };
    let place = Place::new();
    fs::remove_dir_all(place.layers.base.files()).expect("removed");
    let error = fails(&place, Backend::Overlay);
    assert!(
        matches!(&error, Error::Missing { missing, .. } if *missing == place.layers.base.files()),
        "{error}"
    );
    let place = Place::new().with_image();
    fs::remove_file(&place.layers.base.devices[0]).expect("removed");
    let error = fails(&place, Backend::Image);
    assert!(
        matches!(&error, Error::Missing { missing, .. } if *missing == place.layers.base.devices[0]),
        "{error}"
    );
    let place = Place::new().with_image();
    fs::write(place.layers.base.image(), vec![0; 8192]).expect("written");
    let error = fails(&place, Backend::Image);
    assert!(matches!(&error, Error::Mount { .. } | Error::NotAnImage { .. }), "{error}");
    let place = Place::new();
    fs::remove_dir_all(&place.layers.site.upper).expect("removed");
    let error = fails(&place, Backend::Overlay);
    assert!(matches!(&error, Error::NoUpper { upper, .. } if *upper == place.layers.site.upper), "{error}");
    // The upper layer is on an overlay.
    let outer = Place::new();
    outer.mount(Backend::Overlay).expect("mounted");
    let mut inner = Place::new();
    inner.layers.site.upper = outer.top("upper");
    inner.layers.site.work = outer.top("work");
    fs::create_dir(&inner.layers.site.upper).expect("made");
    fs::create_dir(&inner.layers.site.work).expect("made");
    let image = Place::new().with_image();
    let base = &image.layers.base;
    inner.layers.base = base.clone();
    let error = fails(&inner, Backend::Image);
    assert!(!image::is_mounted(base).expect("known"), "{error}");
    let error = fails(&inner, Backend::Overlay);
    assert!(matches!(&error, Error::UnfitUpper { file_system, .. } if file_system == "overlay"), "{error}");
    // Another file system is mounted at the workspace's path.
    let place = Place::new();
    let status = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&place.layers.site.top).status();
    assert!(status.expect("mount can be run").success());
    let error = place.mount(Backend::Overlay).expect_err("it is covered");
    assert!(matches!(&error, Error::Covered { file_system, .. } if file_system == "tmpfs"), "{error}");
}

fn busy_names_the_processes() {
    need_root!();
    let place = Place::new();
    place.mount(Backend::Overlay).expect("mounted");
    let mut by_dir = Command::new("sleep").arg("100").current_dir(place.top("dir")).spawn().expect("started");
    let open = fs::File::open(place.top("file")).expect("opened");
    let mut by_file =
        Command::new("tail").arg("-f").stdin(open).stdout(Stdio::null()).spawn().expect("started");
    let refused = place.unmount(Backend::Overlay).expect_err("it is busy");
    let Error::Busy { processes, .. } = &refused else { panic!("{refused}") };
    let named: Vec<_> = processes.iter().map(|process| (process.pid, process.name.as_deref())).collect();
    assert!(named.contains(&(by_dir.id(), Some("sleep"))), "{refused}");
    assert!(named.contains(&(by_file.id(), Some("tail"))), "{refused}");
    assert_eq!(place.state(Backend::Overlay), Mounted::Here);
    for process in [&mut by_dir, &mut by_file] {
        process.kill().expect("it is ours");
        process.wait().expect("it ends");
    }
    place.unmount(Backend::Overlay).expect("unused");
}

fn an_upper_layer_is_mounted_once() {
    need_root!();
    let place = Place::new();
    place.mount(Backend::Overlay).expect("mounted");
    let upper = sys::by_path::open(&place.layers.site.upper).expect("opened");
    place.unmount(Backend::Overlay).expect("unused");
    assert!(sys::try_lock(&upper).expect("locked"));
    let refused = place.mount(Backend::Overlay).expect_err("somebody has the lock");
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    drop(upper);
    place.mount(Backend::Overlay).expect("mounted");
}

fn a_volatile_mount_survives_everything_but_a_crash() {
    need_root!();
    let mut place = Place::new();
    place.layers.durability = Durability::Volatile;
    let mark = place.layers.site.work.join("work/incompat");
    for _ in 0..2 {
        place.mount(Backend::Overlay).expect("mounted");
        assert!(mark.exists());
        place.unmount(Backend::Overlay).expect("unused");
        assert!(!mark.exists());
    }
    // Another process unmounts the workspace.
    place.mount(Backend::Overlay).expect("mounted");
    assert!(Command::new("umount").arg(&place.layers.site.top).status().expect("can be run").success());
    assert!(mark.exists());
    place.mount(Backend::Overlay).expect("the kernel has not stopped in between");
    assert!(Command::new("umount").arg(&place.layers.site.top).status().expect("can be run").success());
    // The edits of one mount are not on the disk, so its mark stays.
    assert!(place.layers.site.upper.with_file_name("unsynced").exists());
    place.mount(Backend::Overlay).expect("mounted");
    // Another setting applies at the next mount.
    place.unmount(Backend::Overlay).expect("unused");
    place.layers.durability = Durability::Synced;
    place.mount(Backend::Overlay).expect("mounted");
    assert!(!mark.exists());
    assert!(!place.layers.site.upper.with_file_name("unsynced").exists());
}

fn another_host_is_noticed() {
    need_root!();
    let place = Place::new();
    place.mount(Backend::Overlay).expect("mounted");
    let marker = place.layers.site.state.join("mounted");
    let text = fs::read_to_string(&marker).expect("read");
    place.unmount(Backend::Overlay).expect("unused");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
    let foreign = text.replace("host ", "host far-away-").replace(boot.trim_end(), "another");
    fs::write(&marker, foreign).expect("written");
    let refused = place.mount(Backend::Overlay).expect_err("it may be mounted there");
    assert!(matches!(&refused, Error::OtherHost { host, .. } if host.starts_with("far-away-")), "{refused}");
    fs::remove_file(&marker).expect("the way out");
    place.mount(Backend::Overlay).expect("mounted");
}

fn another_namespace_is_noticed() {
    need_root!();
    let place = Place::new();
    // A container with its own copy of the mount.
    let script = r#""$@" && echo mounted && sleep 100"#;
    let helper = place.helper(&["mount", "overlay"]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(helper.get_program()).args(helper.get_args()).stdout(Stdio::piped());
    let mut other = command.spawn().expect("started");
    let mut output = std::io::BufReader::new(other.stdout.take().expect("a pipe"));
    let mut line = String::new();
    for expected in ["Here\n", "mounted\n"] {
        line.clear();
        std::io::BufRead::read_line(&mut output, &mut line).expect("it writes");
        assert_eq!(line, expected);
    }
    assert!(matches!(place.state(Backend::Overlay), Mounted::InNamespace { .. }));
    for refused in [place.mount(Backend::Overlay).map(drop), place.unmount(Backend::Overlay)] {
        assert!(matches!(refused, Err(Error::Elsewhere { .. })), "{refused:?}");
    }
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", other.id())).expect("read");
    for child in children.split_whitespace() {
        let _ = Command::new("kill").arg(child).status();
    }
    let _ = other.kill();
    other.wait().expect("it ends");
    // The kernel removes the namespace shortly after its last process exits.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while place.state(Backend::Overlay) != Mounted::No {
        assert!(std::time::Instant::now() < end, "the namespace does not end");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    place.mount(Backend::Overlay).expect("mounted");
}

fn an_unused_copy_of_a_mount_does_no_harm() {
    need_root!();
    let place = Place::new().with_image();
    place.mount(Backend::Image).expect("mounted");
    // The holder's namespace has a copy of the outer mounts, because unmounts do not propagate
    // here.
    let other = Place::new();
    other.mount(Backend::OverlayUser).expect("mounted");
    let mut user = other.helper(&[
        "inside",
        "overlay-user",
        &format!("cd '{}' && echo && exec sleep 100", place.layers.site.top.display()),
    ]);
    let mut user = user.stdout(Stdio::piped()).spawn().expect("started");
    let mut output = std::io::BufReader::new(user.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut output, &mut String::new()).expect("it writes");
    let refused = place.unmount(Backend::Image).expect_err("a process uses the copy");
    let Error::Elsewhere { processes, .. } = &refused else { panic!("{refused}") };
    for process in processes {
        let _ = Command::new("kill").arg(process.pid.to_string()).status();
    }
    user.wait().expect("it ends");
    place.mount(Backend::Image).expect("mounted again");
    place.unmount(Backend::Image).expect("nobody uses it");
    assert!(image::unmount_if_unused(&place.layers.base, &Door::Own).expect("unused"));
    assert_eq!(place.state(Backend::Image), Mounted::No);
    place.mount(Backend::Image).expect("mounted again");
    fs::write(place.top("file"), "new").expect("written");
    place.unmount(Backend::Image).expect("nobody uses it");
    other.unmount(Backend::OverlayUser).expect("nobody uses it");
}

fn a_discarded_workspace_is_gone_at_once() {
    need_root!();
    let place = Place::new();
    place.mount(Backend::Overlay).expect("mounted");
    fs::write(place.top("file"), "new").expect("written");
    let open = fs::File::open(place.top("file")).expect("opened");
    let refused = backend::discard(Backend::Overlay, &place.layers.site, Busy::Refuse);
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    assert_eq!(place.state(Backend::Overlay), Mounted::Here);
    drop(open);
    backend::discard(Backend::Overlay, &place.layers.site, Busy::Refuse).expect("nobody uses it");
    assert_eq!(place.state(Backend::Overlay), Mounted::No);
    assert!(!place.top("file").exists());
    // The process that ends the mount in the background uses neither layer afterwards.
    place.mount(Backend::Overlay).expect("mounted again");
    backend::discard(Backend::Overlay, &place.layers.site, Busy::Detach).expect("detached");
    assert_eq!(place.state(Backend::Overlay), Mounted::No);
}

fn a_base_is_not_unmounted_below_a_new_workspace() {
    need_root!();
    let owner = Place::new().with_image();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut place = Place::new();
                place.layers.base = owner.layers.base.clone();
                for _ in 0..100 {
                    place.mount(Backend::Image).expect("mounted");
                    assert_eq!(fs::read(place.top("file")).expect("the base is there"), b"content of file\n");
                    place.unmount(Backend::Image).expect("nobody uses it");
                    image::unmount_if_unused(&place.layers.base, &Door::Own)
                        .expect("it is known who uses it");
                }
            });
        }
    });
    assert!(!image::is_mounted(&owner.layers.base).expect("known"));
}
