//! What can be had: types, images, a subnet, a security group.
//!
//! Invariant: each has the fields that the documentation names.

/// The one zone that has a subnet.
pub(super) const ZONE: &str = "eu-central-1a";
/// The one subnet.
pub(super) const SUBNET: &str = "subnet-0123456789abcdef0";
/// The one security group.
pub(super) const GROUP: &str = "sg-0123456789abcdef0";
/// What each image calls its first disk.
pub(super) const ROOT: &str = "/dev/xvda";

/// Images: ID and architecture.
const IMAGES: [(&str, &str); 2] = [
    ("ami-0123456789abcdef0", "x86_64"),
    ("ami-0123456789abcdef1", "arm64"),
];

/// A type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) name: &'static str,
    pub(super) cpus: usize,
    pub(super) memory: u32,
    pub(super) architecture: &'static str,
    /// It is to be had in the zone.
    pub(super) is_here: bool,
    /// US dollars of an hour, where it may be taken back.
    pub(super) price: &'static str,
}

/// All types.
pub(super) const TYPES: [Type; 4] = [
    Type {
        name: "m7i.large",
        cpus: 2,
        memory: 8192,
        architecture: "x86_64",
        is_here: true,
        price: "0.0345",
    },
    Type {
        name: "m7i.xlarge",
        cpus: 4,
        memory: 16384,
        architecture: "x86_64",
        is_here: true,
        price: "0.0690",
    },
    Type {
        name: "m7g.large",
        cpus: 2,
        memory: 8192,
        architecture: "arm64",
        is_here: true,
        price: "0.0301",
    },
    Type {
        name: "m5.large",
        cpus: 2,
        memory: 8192,
        architecture: "x86_64",
        is_here: false,
        price: "0.0400",
    },
];

/// A type, by its name.
pub(super) fn type_of(name: &str) -> Option<Type> {
    TYPES.into_iter().find(|type_| type_.name == name)
}

/// The architecture of an image.
pub(super) fn image(id: &str) -> Option<&'static str> {
    let found = IMAGES.iter().find(|image| image.0 == id);
    found.map(|image| image.1)
}
