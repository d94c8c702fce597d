//! Names of images in a registry that stands for all others.

use super::Image;

fn reference(name: &str) -> String {
    let image = Image {
        name: name.to_owned(),
        layers: Vec::new(),
        entrypoint: Vec::new(),
        command: Vec::new(),
        user: super::NONROOT,
        env: Vec::new(),
    };
    image.reference_at("127.0.0.1:5000")
}

#[test]
fn the_lab_registry_takes_the_place_of_the_host_in_a_name() {
    assert_eq!(
        reference("registry.k8s.io/etcd:3.6.16-0"),
        "127.0.0.1:5000/etcd:3.6.16-0"
    );
    assert_eq!(
        reference("registry.k8s.io/coredns/coredns:v1.13.1"),
        "127.0.0.1:5000/coredns/coredns:v1.13.1"
    );
    assert_eq!(reference("localhost/a:1"), "127.0.0.1:5000/a:1");
}

#[test]
fn a_name_without_a_host_keeps_all_its_parts() {
    assert_eq!(
        reference("covey/operator:1"),
        "127.0.0.1:5000/covey/operator:1"
    );
    assert_eq!(reference("operator:1"), "127.0.0.1:5000/operator:1");
}
