//! Tests of the next call of a creation.
//!
//! Invariant: what may be made is asked for once.

use super::*;
use crate::body::body;
use crate::schema::{InstanceView, Status, VmProperties};
use providers::tags::{SPELLED_MACHINE_UID, spelled};

const UID: &str = "5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11";
const IMAGE: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/c/images/w/versions/1.36.0";

fn at() -> Timestamp {
    Timestamp::from_second(1_790_000_000).unwrap()
}

fn wanted() -> Wanted {
    Wanted {
        owner: Owner {
            installation: "i-1".to_owned(),
            machine: "workers-x2k9p".to_owned(),
            uid: UID.to_owned(),
            ..Owner::default()
        },
        size: "Standard_D2s_v5".to_owned(),
        image: IMAGE.to_owned(),
        disk: 30,
        is_spot: false,
        user_data: "#cloud-config\n".to_owned(),
    }
}

fn place() -> Place {
    Place {
        installation: "i-1".to_owned(),
        subscription: "s".to_owned(),
        group: "g".to_owned(),
        location: "westeurope".to_owned(),
        subnet: "/subscriptions/s/resourceGroups/g/net".to_owned(),
        ssh_key: "ssh-ed25519 A".to_owned(),
        public_ipv4: true,
        ..Place::default()
    }
}

fn vm(state: &str, statuses: &[&str]) -> Vm {
    let status = |code: &&str| Status {
        code: (*code).to_owned(),
        message: Some("m".to_owned()),
    };
    Vm {
        tags: spelled(&wanted().owner, at()),
        properties: VmProperties {
            vm_id: "00000007-0000-4000-8000-000000000007".to_owned(),
            provisioning_state: state.to_owned(),
            instance_view: Some(InstanceView {
                statuses: statuses.iter().map(status).collect(),
            }),
            ..VmProperties::default()
        },
        ..Vm::default()
    }
}

fn next(seen: &Seen) -> Creation {
    creation(&wanted(), &place(), seen)
}

#[test]
fn address_interface_and_machine_are_put_one_after_the_other() {
    let mut seen = Seen::default();
    assert_eq!(next(&seen), Creation::Put(Kind::Address));
    let tags = spelled(&wanted().owner, at());
    seen.address = Some(Address {
        tags: tags.clone(),
        ..Address::default()
    });
    let set = |state: &str, seen: &mut Seen| {
        let address = seen.address.as_mut().unwrap();
        state.clone_into(&mut address.properties.provisioning_state);
        next(seen)
    };
    assert_eq!(set("Updating", &mut seen), Creation::Wait);
    assert_eq!(set("Deleting", &mut seen), Creation::Wait);
    assert_eq!(set("Failed", &mut seen), Creation::Put(Kind::Address));
    assert_eq!(set("Succeeded", &mut seen), Creation::Put(Kind::Nic));
    let mut nic = Nic {
        tags,
        ..Nic::default()
    };
    nic.properties.provisioning_state = "Succeeded".to_owned();
    seen.nic = Some(nic);
    assert_eq!(next(&seen), Creation::Put(Kind::Vm));
    seen.nic.as_mut().unwrap().tags.clear();
    assert_eq!(next(&seen), Creation::Taken(Kind::Nic));
    let bare = Place {
        public_ipv4: false,
        ..place()
    };
    let none = creation(&wanted(), &bare, &Seen::default());
    assert_eq!(none, Creation::Put(Kind::Nic));
}

#[test]
fn machine_of_the_name_is_taken_by_its_tags_alone() {
    let of = |vm: &Vm| {
        next(&Seen {
            vm: Some(vm.clone()),
            ..Seen::default()
        })
    };
    let mut there = vm("Creating", &["ProvisioningState/creating"]);
    assert_eq!(of(&there), Creation::Wait, "it may still fail");
    let runs = vm("Creating", &["PowerState/running"]);
    assert!(matches!(of(&runs), Creation::There(_)));
    let owner = wanted().owner;
    let known = number(&there.properties.vm_id);
    assert!(known.is_some() && is_its(&owner, None, &there));
    there.tags.clear();
    assert_eq!(of(&there), Creation::Taken(Kind::Vm));
    assert!(is_its(&owner, known, &there) && !is_its(&owner, Some(8), &there));
    assert!(!is_its(&owner, None, &there));
    there
        .tags
        .insert("Covey-Machine-UID".to_owned(), "other".to_owned());
    assert!(!is_its(&owner, known, &there));
    assert_eq!(of(&vm("Deleting", &[])), Creation::Wait);
}

#[test]
fn machine_that_failed_is_told_by_its_code_unless_it_runs() {
    let codes = ["ProvisioningState/failed/AllocationFailed"];
    assert_eq!(
        failure(&vm("Failed", &codes)).unwrap().code,
        "AllocationFailed"
    );
    assert_eq!(failure(&vm("Failed", &[])).unwrap().code, FAILED);
    let runs = [
        "ProvisioningState/failed/InternalExecutionError",
        "PowerState/running",
    ];
    assert_eq!(failure(&vm("Failed", &runs)), None);
    assert_eq!(failure(&vm("Succeeded", &codes)), None);
}

#[test]
fn what_is_put_has_tags_no_identity_and_goes_with_its_machine() {
    let of = |kind| body(kind, &wanted(), &place(), at());
    for kind in [Kind::Vm, Kind::Nic, Kind::Address] {
        assert_eq!(of(kind)["tags"][SPELLED_MACHINE_UID], UID);
    }
    let sent = of(Kind::Vm);
    let properties = &sent["properties"];
    assert!(sent["identity"].is_null() && properties["priority"].is_null());
    assert_eq!(
        properties["storageProfile"]["osDisk"]["deleteOption"],
        "Delete"
    );
    let net = &properties["networkProfile"]["networkInterfaces"][0];
    assert_eq!(net["properties"]["deleteOption"], "Delete");
    let ip = &of(Kind::Nic)["properties"]["ipConfigurations"][0]["properties"];
    assert_eq!(
        ip["publicIPAddress"]["properties"]["deleteOption"],
        "Delete"
    );
    let spot = Wanted {
        is_spot: true,
        ..wanted()
    };
    let sent = body(Kind::Vm, &spot, &place(), at());
    assert_eq!(sent["properties"]["evictionPolicy"], "Delete");
    assert_eq!(sent["properties"]["billingProfile"]["maxPrice"], -1);
}

#[test]
fn what_can_only_fail_is_not_asked_for() {
    let of = |wanted: &Wanted, place: &Place| match creation(wanted, place, &Seen::default()) {
        Creation::Impossible(why) => why,
        other => panic!("{other:?}"),
    };
    let large = Wanted {
        user_data: "x".repeat(USER_DATA_LIMIT + 1),
        ..wanted()
    };
    assert!(of(&large, &place()).contains("65537 bytes"));
    let without = Place {
        ssh_key: " ".to_owned(),
        ..place()
    };
    assert!(of(&wanted(), &without).contains("key of SSH"));
    for image in [
        "debian",
        "",
        &IMAGE.replace("1.36.0", "latest"),
        &IMAGE.replace("1.36.0", ""),
    ] {
        let odd = Wanted {
            image: image.to_owned(),
            ..wanted()
        };
        assert!(of(&odd, &place()).contains("is no image"), "{image}");
    }
    assert!(is_image(
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/images/w"
    ));
}

#[test]
fn disk_that_is_left_goes_once_it_can_be_of_no_machine_that_is_being_made() {
    let owner = wanted().owner;
    let disk = |tags: &Labels, user: Option<&str>, age: i64, state: &str| {
        let created = at() - jiff::SignedDuration::from_secs(age);
        let mut disk = Disk {
            tags: tags.clone(),
            managed_by: user.map(|user| format!("/subscriptions/s/virtualMachines/{user}")),
            ..Disk::default()
        };
        disk.properties.time_created = Some(created.to_string());
        state.clone_into(&mut disk.properties.provisioning_state);
        leftover(&owner, Some(&disk), at())
    };
    let ours = spelled(&owner, at());
    assert_eq!(leftover(&owner, None, at()), Leftover::Nothing);
    assert_eq!(disk(&ours, None, 400, "Succeeded"), Leftover::Delete);
    assert_eq!(disk(&ours, None, 200, "Succeeded"), Leftover::Wait);
    assert_eq!(disk(&ours, None, 400, "Deleting"), Leftover::Wait);
    let name = owner.name().to_uppercase();
    for tags in [&ours, &Labels::new()] {
        let its = disk(tags, Some(&name), 400, "Succeeded");
        assert_eq!(its, Leftover::Nothing);
    }
    for (tags, user) in [(&ours, Some("other")), (&Labels::new(), None)] {
        assert_eq!(disk(tags, user, 400, "Succeeded"), Leftover::Taken);
    }
}
