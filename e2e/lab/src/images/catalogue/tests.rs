//! Which files the lab's images have. No test needs built programs: they make images of themselves.

use std::path::Path;

use kit_oci::image::{File, Layer};
use kit_oci::layout;

use super::{base, image, libraries, loaded, operator};

#[test]
fn libraries_are_taken_from_where_the_loader_found_them() {
    let ldd = "\tlinux-vdso.so.1 (0x00007fe7b256f000)\n\
               \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fe7b2260000)\n\
               \t/lib64/ld-linux-x86-64.so.2 (0x00007fe7b2571000)\n";
    assert_eq!(
        loaded(ldd),
        [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2"
        ]
    );
    assert!(loaded("\tstatically linked\n").is_empty());
}

#[test]
fn a_binary_that_is_not_static_brings_its_libraries() {
    let this = std::env::current_exe().unwrap();
    let files = libraries(&this).unwrap();
    assert!(
        files.iter().any(|file| file.path.contains("libc.so")),
        "{files:?}"
    );
    let image = operator("covey/operator:1", &this).unwrap();
    let last = image.layers.last().unwrap();
    assert_eq!(last, &Layer::Files(vec![File::program("/operator", this)]));
    assert_eq!(image.layers.len(), 3);
}

#[test]
fn a_missing_operator_is_told_by_its_path() {
    let error = operator("covey/operator:1", Path::new("/nowhere/operator")).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere/operator is not there");
}

#[test]
fn every_image_has_users_and_a_place_for_temporary_files() {
    let cache = tempfile::tempdir().unwrap();
    let image = image("covey/x:1", vec![Layer::Files(Vec::new())], "/x");
    assert_eq!(image.layers[0], base());
    let Layer::Files(files) = base() else {
        panic!("an archive")
    };
    let paths: Vec<_> = files.into_iter().map(|file| file.path).collect();
    assert_eq!(paths, ["/etc/passwd", "/etc/group", "/tmp"]);
    layout::write(&image, cache.path()).unwrap();
}
