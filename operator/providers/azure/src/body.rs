//! What is put. Pure.
//!
//! Invariant: everything that is put has the Machine's tags, and goes with its machine (`deleteOption`); a machine has no
//! identity, so its metadata have no token for anybody.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::settings::{Kind, Place, Wanted};
use providers::tags::spelled;

/// Who may be logged in as, by the key of the settings. Azure makes no machine of Linux without one.
const ADMIN: &str = "covey";

/// What is put for a Machine. `now`: by Azure's clock.
#[must_use]
pub fn body(kind: Kind, wanted: &Wanted, place: &Place, now: Timestamp) -> Value {
    let mut body = match kind {
        Kind::Vm => machine(wanted, place),
        Kind::Nic => interface(wanted, place),
        Kind::Address => json!({
            "sku": { "name": "Standard" },
            "properties": { "publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4" },
        }),
        // It is made with its machine.
        Kind::Disk => json!({}),
    };
    body["location"] = json!(place.location);
    body["tags"] = json!(spelled(&wanted.owner, now));
    if let (Some(zone), Kind::Vm | Kind::Address) = (&place.zone, kind) {
        body["zones"] = json!([zone]);
    }
    body
}

fn machine(wanted: &Wanted, place: &Place) -> Value {
    let name = Kind::Vm.name(&wanted.owner);
    let nic = place.id_of(Kind::Nic, &Kind::Nic.name(&wanted.owner));
    let key = json!({
        "path": format!("/home/{ADMIN}/.ssh/authorized_keys"), "keyData": place.ssh_key,
    });
    let mut properties = json!({
        "hardwareProfile": { "vmSize": wanted.size },
        "storageProfile": {
            "imageReference": { "id": wanted.image },
            "osDisk": {
                "name": Kind::Disk.name(&wanted.owner), "createOption": "FromImage", "deleteOption": "Delete",
                "diskSizeGB": wanted.disk,
            },
        },
        "osProfile": {
            "computerName": name, "adminUsername": ADMIN,
            "linuxConfiguration": { "disablePasswordAuthentication": true, "ssh": { "publicKeys": [key] } },
        },
        "networkProfile": {
            "networkInterfaces": [{ "id": nic, "properties": { "primary": true, "deleteOption": "Delete" } }],
        },
        "userData": STANDARD.encode(&wanted.user_data),
    });
    if wanted.is_spot {
        properties["priority"] = json!("Spot");
        properties["evictionPolicy"] = json!("Delete");
        // Whatever it costs, up to what others cost.
        properties["billingProfile"] = json!({ "maxPrice": -1 });
    }
    json!({ "properties": properties })
}

fn interface(wanted: &Wanted, place: &Place) -> Value {
    let mut ip =
        json!({ "privateIPAllocationMethod": "Dynamic", "subnet": { "id": place.subnet } });
    if place.public_ipv4 {
        let address = place.id_of(Kind::Address, &Kind::Address.name(&wanted.owner));
        ip["publicIPAddress"] =
            json!({ "id": address, "properties": { "deleteOption": "Delete" } });
    }
    let mut properties = json!({ "ipConfigurations": [{ "name": "primary", "properties": ip }] });
    if let Some(rules) = &place.security_group {
        properties["networkSecurityGroup"] = json!({ "id": rules });
    }
    json!({ "properties": properties })
}
