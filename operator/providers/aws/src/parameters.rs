//! What is sent: the form of a call. Pure.
//!
//! Invariant: what an instance is made of is the same text at each call for one Machine, because the token under which it is
//! asked for holds for that alone; everything that it makes has the Machine's tags and goes with it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use providers::http_client::encoded;
use providers::tags::spelled;

use crate::settings::{Place, Wanted};

/// The version of EC2's API, the only one of ten years.
const EC2: &str = "2016-11-15";
/// The one of the Security Token Service's.
const STS: &str = "2011-06-15";
/// What an instance makes that has tags.
const TAGGED: [&str; 3] = ["instance", "volume", "network-interface"];

/// A form.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Form {
    /// What is asked for.
    pub action: &'static str,
    fields: Vec<(String, String)>,
}

impl Form {
    /// Of EC2.
    #[must_use]
    pub fn ec2(action: &'static str) -> Self {
        Self::of(action, EC2)
    }

    /// Of the Security Token Service.
    #[must_use]
    pub fn sts(action: &'static str) -> Self {
        Self::of(action, STS)
    }

    fn of(action: &'static str, version: &str) -> Self {
        let fields = Vec::new();
        Self { action, fields }
            .with("Action", action)
            .with("Version", version)
    }

    /// With a field more.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// With a list of values more, counted from 1.
    #[must_use]
    pub fn with_each<'a>(self, name: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        let numbered = values.into_iter().zip(1..);
        numbered.fold(self, |form, (value, n)| {
            form.with(format!("{name}.{n}"), value)
        })
    }

    /// Only what these say, each by one value.
    #[must_use]
    pub fn filtered(self, filters: &[(&str, &str)]) -> Self {
        let numbered = filters.iter().zip(1..);
        numbered.fold(self, |form, ((name, value), n)| {
            form.with(format!("Filter.{n}.Name"), *name)
                .with(format!("Filter.{n}.Value.1"), *value)
        })
    }

    /// As it is sent.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let fields = self.fields.iter();
        let fields: Vec<_> = fields
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
            .collect();
        fields.join("&").into_bytes()
    }
}

/// What makes a Machine's instance.
#[must_use]
pub fn run(wanted: &Wanted, place: &Place) -> Form {
    let flag = |value: bool| if value { "true" } else { "false" };
    let of_disk = |name: &str| format!("BlockDeviceMapping.1.{name}");
    let of_nic = |name: &str| format!("NetworkInterface.1.{name}");
    let form = Form::ec2("RunInstances");
    // Where nothing is to be made there is no Machine.
    let form = match wanted.owner.uid.as_str() {
        "" => form,
        uid => form.with("ClientToken", uid),
    };
    let mut form = form
        .with("MinCount", "1")
        .with("MaxCount", "1")
        .with("ImageId", &wanted.image)
        .with("InstanceType", &wanted.size)
        .with("UserData", STANDARD.encode(&wanted.user_data))
        // The default depends on the account and on the image. Pods are one hop further away than the machine itself.
        .with("MetadataOptions.HttpEndpoint", "enabled")
        .with("MetadataOptions.HttpTokens", "required")
        .with("MetadataOptions.HttpPutResponseHopLimit", "1")
        .with("MetadataOptions.InstanceMetadataTags", "disabled")
        .with("InstanceInitiatedShutdownBehavior", "terminate")
        .with(of_disk("DeviceName"), &place.root_device)
        .with(of_disk("Ebs.VolumeSize"), wanted.disk.to_string())
        .with(of_disk("Ebs.VolumeType"), "gp3")
        .with(of_disk("Ebs.Encrypted"), "true")
        .with(of_disk("Ebs.DeleteOnTermination"), "true")
        .with(of_nic("DeviceIndex"), "0")
        .with(of_nic("SubnetId"), &place.subnet)
        .with(of_nic("AssociatePublicIpAddress"), flag(place.public_ipv4))
        .with(of_nic("DeleteOnTermination"), "true");
    let groups = place.security_groups.iter().map(String::as_str);
    form = form.with_each(&of_nic("SecurityGroupId"), groups);
    if wanted.is_spot {
        let options = "InstanceMarketOptions.SpotOptions";
        form = form
            .with("InstanceMarketOptions.MarketType", "spot")
            .with(format!("{options}.SpotInstanceType"), "one-time")
            .with(
                format!("{options}.InstanceInterruptionBehavior"),
                "terminate",
            );
    }
    let mut tags = spelled(&wanted.owner, wanted.since);
    tags.insert("Name".to_owned(), wanted.owner.name());
    for (kind, n) in TAGGED.iter().zip(1..) {
        let of = |name: &str| format!("TagSpecification.{n}.{name}");
        form = form.with(of("ResourceType"), *kind);
        for ((key, value), m) in tags.iter().zip(1..) {
            form = form
                .with(of(&format!("Tag.{m}.Key")), key)
                .with(of(&format!("Tag.{m}.Value")), value);
        }
    }
    form
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use providers::identity::Owner;

    use super::*;

    fn wanted() -> Wanted {
        Wanted {
            owner: Owner {
                installation: "i-1".to_owned(),
                machine: "w".to_owned(),
                uid: "5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11".to_owned(),
                ..Owner::default()
            },
            since: Timestamp::UNIX_EPOCH,
            size: "m7i.large".to_owned(),
            image: "ami-1".to_owned(),
            disk: 30,
            is_spot: false,
            user_data: "#cloud-config\n".to_owned(),
        }
    }

    fn text(form: &Form) -> String {
        String::from_utf8(form.body()).unwrap()
    }

    #[test]
    fn instance_is_asked_for_under_its_machines_uid_and_closed_to_pods() {
        let place = Place {
            root_device: "/dev/xvda".to_owned(),
            security_groups: vec!["sg-1".to_owned(), "sg-2".to_owned()],
            ..Place::default()
        };
        let sent = text(&run(&wanted(), &place));
        for field in [
            "ClientToken=5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11&",
            "MinCount=1&MaxCount=1&",
            "UserData=I2Nsb3VkLWNvbmZpZwo%3D&",
            "MetadataOptions.HttpTokens=required&",
            "MetadataOptions.HttpPutResponseHopLimit=1&",
            "BlockDeviceMapping.1.DeviceName=%2Fdev%2Fxvda&",
            "BlockDeviceMapping.1.Ebs.DeleteOnTermination=true&",
            "NetworkInterface.1.DeleteOnTermination=true&",
            "NetworkInterface.1.SecurityGroupId.2=sg-2&",
            "TagSpecification.3.ResourceType=network-interface&",
        ] {
            assert!(sent.contains(field), "{field}: {sent}");
        }
        assert!(!sent.contains("MarketType"), "{sent}");
        assert_eq!(sent, text(&run(&wanted(), &place)), "the same bytes");
        let spot = Wanted {
            is_spot: true,
            ..wanted()
        };
        assert!(text(&run(&spot, &place)).contains("MarketType=spot&"));
    }

    #[test]
    fn lists_are_counted_from_one() {
        let form = Form::ec2("DescribeInstances")
            .with_each("InstanceId", ["a", "b"])
            .filtered(&[("tag:k", "v v")]);
        let sent = text(&form);
        let all = "Action=DescribeInstances&Version=2016-11-15&InstanceId.1=a&InstanceId.2=b&\
                   Filter.1.Name=tag%3Ak&Filter.1.Value.1=v%20v";
        assert_eq!(sent, all);
    }
}
