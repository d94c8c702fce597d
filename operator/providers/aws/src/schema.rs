//! What comes back from the API, as far as it matters here: XML. Pure.
//!
//! Invariant: what an answer leaves out is none, and a value that nobody knows is kept as it came, so that an answer of a
//! newer API is still read. An answer whose first element is not that of the call is another one.

use providers::identity::Labels;
use roxmltree::{Document, Node};

/// An instance.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Instance {
    /// `i-…`, which no other ever has.
    pub id: String,
    /// `pending`, `running`, `shutting-down`, `terminated`, `stopping`, `stopped`.
    pub state: String,
    /// Why it came to its state: code and sentence.
    pub reason: Option<(String, String)>,
    /// What it was asked for under.
    pub token: String,
    /// Its type.
    pub type_: String,
    /// Its zone.
    pub zone: String,
    /// Since when it is there, in RFC 3339.
    pub launched: Option<String>,
    /// Its address in the subnet.
    pub private_ip: Option<String>,
    /// Its public address.
    pub public_ip: Option<String>,
    /// Of one that may be taken back: its request.
    pub spot_request: Option<String>,
    /// Its tags, as EC2 has them.
    pub tags: Labels,
}

/// What an instance has or had: a disk or an interface.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Part {
    /// `vol-…`, `eni-…`.
    pub id: String,
    /// `available` where nobody has it.
    pub status: String,
    /// Since when it is there, in RFC 3339; none: EC2 does not say.
    pub created: Option<String>,
    /// Its tags.
    pub tags: Labels,
}

/// An image.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Image {
    /// `available` where one can be started from it.
    pub state: String,
    /// `x86_64`, `arm64`.
    pub architecture: String,
    /// What it calls the disk that it is started from.
    pub root_device: String,
}

/// A type of instance.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InstanceType {
    /// Its name.
    pub name: String,
    /// Processors.
    pub cpus: String,
    /// Memory in MiB.
    pub memory: String,
    /// `x86_64`, `arm64`, `i386`.
    pub architectures: Vec<String>,
}

/// A subnet.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Subnet {
    /// Its zone.
    pub zone: String,
    /// Addresses that are left.
    pub free: Option<u32>,
}

/// What an instance costs that may be taken back.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SpotPrice {
    /// Its type.
    pub type_: String,
    /// US dollars of an hour.
    pub price: Option<String>,
}

/// How a request of an instance that may be taken back stands.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SpotStatus {
    /// `fulfilled`, `marked-for-termination`.
    pub code: String,
    /// Since when, in RFC 3339.
    pub since: Option<String>,
}

/// Whom credentials are of.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// Number of the account.
    pub account: String,
}

/// A session that was had.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Granted {
    /// Its key.
    pub id: String,
    /// The secret.
    pub secret: String,
    /// Its token.
    pub token: String,
    /// When it ends, in RFC 3339.
    pub until: String,
}

/// What went wrong, as the API says it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Fault {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
}

/// A page of a list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// What the next one is asked for with; none: there is none.
    pub next: Option<String>,
}

/// Something that comes back.
pub trait Read: Sized {
    /// From the first element of an answer; none: it lacks what it has to have.
    fn read(root: Node<'_, '_>) -> Option<Self>;
}

/// Something in a list.
pub trait Item: Sized {
    /// The lists that lead to it, the outermost first: each has elements `item`.
    const LISTS: &'static [&'static str];

    /// From its element; none: it lacks what it has to have.
    fn read(item: Node<'_, '_>) -> Option<Self>;
}

/// Reads an answer to a call.
///
/// # Errors
/// Why it is another one.
pub fn answer<T: Read>(body: &[u8], action: &str) -> Result<T, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let root = document.root_element();
    let name = root.tag_name().name();
    if name.strip_suffix("Response") != Some(action) {
        return Err(format!("it is {name}, and not {action}Response"));
    }
    T::read(root).ok_or_else(|| format!("{name} lacks what it has to have"))
}

/// What an answer says that went wrong; of what is no such answer, nothing.
#[must_use]
pub fn fault(body: &[u8]) -> Fault {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let Ok(document) = Document::parse(text) else {
        return Fault::default();
    };
    let mut all = document.descendants();
    let error = all.find(|node| node.tag_name().name() == "Error");
    let of = |name: &str| error.and_then(|error| text_of(error, name));
    Fault {
        code: of("Code").unwrap_or_default(),
        message: of("Message").unwrap_or_default(),
    }
}

impl<T: Item> Read for Page<T> {
    fn read(root: Node<'_, '_>) -> Option<Self> {
        let mut items = vec![root];
        for (n, list) in T::LISTS.iter().enumerate() {
            // An answer without it is none of a list.
            if n == 0 {
                child(root, list)?;
            }
            let inner = items.iter().flat_map(|node| items_of(*node, list));
            items = inner.collect();
        }
        let items: Option<Vec<_>> = items.into_iter().map(T::read).collect();
        let next = text_of(root, "nextToken").filter(|next| !next.is_empty());
        Some(Self {
            items: items?,
            next,
        })
    }
}

/// That something was done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Done;

impl Read for Done {
    fn read(_: Node<'_, '_>) -> Option<Self> {
        Some(Self)
    }
}

impl Item for Instance {
    const LISTS: &'static [&'static str] = &["reservationSet", "instancesSet"];

    fn read(item: Node<'_, '_>) -> Option<Self> {
        let reason = child(item, "stateReason");
        let reason = reason.and_then(|reason| {
            let message = text_of(reason, "message").unwrap_or_default();
            Some((text_of(reason, "code")?, message))
        });
        let placement = child(item, "placement");
        Some(Self {
            id: text_of(item, "instanceId")?,
            state: text_of(child(item, "instanceState")?, "name")?,
            reason,
            token: text_of(item, "clientToken").unwrap_or_default(),
            type_: text_of(item, "instanceType").unwrap_or_default(),
            zone: placement
                .and_then(|placement| text_of(placement, "availabilityZone"))
                .unwrap_or_default(),
            launched: text_of(item, "launchTime"),
            private_ip: text_of(item, "privateIpAddress"),
            public_ip: text_of(item, "ipAddress"),
            spot_request: text_of(item, "spotInstanceRequestId"),
            tags: tags(item, "tagSet"),
        })
    }
}

/// What was made by one call.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Made(pub Instance);

impl Read for Made {
    fn read(root: Node<'_, '_>) -> Option<Self> {
        let mut items = items_of(root, "instancesSet").into_iter();
        let instance = Instance::read(items.next()?)?;
        Some(Self(instance))
    }
}

/// A disk.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Volume(pub Part);

impl Item for Volume {
    const LISTS: &'static [&'static str] = &["volumeSet"];

    fn read(item: Node<'_, '_>) -> Option<Self> {
        Some(Self(Part {
            id: text_of(item, "volumeId")?,
            status: text_of(item, "status")?,
            created: text_of(item, "createTime"),
            tags: tags(item, "tagSet"),
        }))
    }
}

/// An interface.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Interface(pub Part);

impl Item for Interface {
    const LISTS: &'static [&'static str] = &["networkInterfaceSet"];

    fn read(item: Node<'_, '_>) -> Option<Self> {
        Some(Self(Part {
            id: text_of(item, "networkInterfaceId")?,
            status: text_of(item, "status")?,
            created: None,
            tags: tags(item, "tagSet"),
        }))
    }
}

impl Item for Image {
    const LISTS: &'static [&'static str] = &["imagesSet"];

    fn read(item: Node<'_, '_>) -> Option<Self> {
        Some(Self {
            state: text_of(item, "imageState")?,
            architecture: text_of(item, "architecture").unwrap_or_default(),
            root_device: text_of(item, "rootDeviceName").unwrap_or_default(),
        })
    }
}

impl Item for InstanceType {
    const LISTS: &'static [&'static str] = &["instanceTypeSet"];

    fn read(item: Node<'_, '_>) -> Option<Self> {
        let processors = child(item, "processorInfo")?;
        let architectures = items_of(processors, "supportedArchitectures").into_iter();
        let architectures = architectures.filter_map(|item| item.text().map(str::to_owned));
        Some(Self {
            name: text_of(item, "instanceType")?,
            cpus: text_of(child(item, "vCpuInfo")?, "defaultVCpus")?,
            memory: text_of(child(item, "memoryInfo")?, "sizeInMiB")?,
            architectures: architectures.collect(),
        })
    }
}

/// That a type is to be had in a zone.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TypeOffering {
    /// Its name.
    pub name: String,
}

impl Item for TypeOffering {
    const LISTS: &'static [&'static str] = &["instanceTypeOfferingSet"];

    fn read(item: Node<'_, '_>) -> Option<Self> {
        let name = text_of(item, "instanceType")?;
        Some(Self { name })
    }
}

impl Item for Subnet {
    const LISTS: &'static [&'static str] = &["subnetSet"];

    fn read(item: Node<'_, '_>) -> Option<Self> {
        let free = text_of(item, "availableIpAddressCount");
        Some(Self {
            zone: text_of(item, "availabilityZone")?,
            free: free.and_then(|free| free.parse().ok()),
        })
    }
}

impl Item for SpotPrice {
    const LISTS: &'static [&'static str] = &["spotPriceHistorySet"];

    fn read(item: Node<'_, '_>) -> Option<Self> {
        Some(Self {
            type_: text_of(item, "instanceType")?,
            price: text_of(item, "spotPrice"),
        })
    }
}

impl Item for SpotStatus {
    const LISTS: &'static [&'static str] = &["spotInstanceRequestSet"];

    fn read(item: Node<'_, '_>) -> Option<Self> {
        let status = child(item, "status")?;
        Some(Self {
            code: text_of(status, "code")?,
            since: text_of(status, "updateTime"),
        })
    }
}

impl Read for Identity {
    fn read(root: Node<'_, '_>) -> Option<Self> {
        let result = child(root, "GetCallerIdentityResult")?;
        let account = text_of(result, "Account").filter(|account| !account.is_empty())?;
        Some(Self { account })
    }
}

impl Read for Granted {
    /// Whichever role it is of.
    fn read(root: Node<'_, '_>) -> Option<Self> {
        let result = root.children().find(Node::is_element)?;
        let granted = child(result, "Credentials")?;
        Some(Self {
            id: text_of(granted, "AccessKeyId")?,
            secret: text_of(granted, "SecretAccessKey")?,
            token: text_of(granted, "SessionToken")?,
            until: text_of(granted, "Expiration")?,
        })
    }
}

/// Last 64 bits of an ID, by which something is told from all else where a number is asked for; none: it is no ID. IDs
/// have 8 or 17 digits, and the first of 17 is 0 in all that were ever seen.
#[must_use]
pub fn number(id: &str) -> Option<u64> {
    let (_, digits) = id.split_once('-')?;
    if !matches!(digits.len(), 8 | 17) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(&digits[digits.len().saturating_sub(16)..], 16).ok()
}

/// The ID of an instance with such a number.
#[must_use]
pub fn instance_id(number: u64) -> String {
    match u32::try_from(number) {
        Ok(number) => format!("i-{number:08x}"),
        Err(_) => format!("i-{number:017x}"),
    }
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children()
        .find(|child| child.tag_name().name() == name)
}

fn text_of(node: Node<'_, '_>, name: &str) -> Option<String> {
    child(node, name)?.text().map(|text| text.trim().to_owned())
}

fn items_of<'a, 'input>(node: Node<'a, 'input>, list: &str) -> Vec<Node<'a, 'input>> {
    let list = child(node, list).into_iter();
    list.flat_map(|list| list.children())
        .filter(|item| item.tag_name().name() == "item")
        .collect()
}

fn tags(node: Node<'_, '_>, list: &str) -> Labels {
    let each = items_of(node, list).into_iter().filter_map(|item| {
        let value = text_of(item, "value").unwrap_or_default();
        Some((text_of(item, "key")?, value))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "<DescribeInstancesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">
        <reservationSet><item><instancesSet><item>
            <instanceId>i-0123456789abcdef0</instanceId>
            <instanceState><code>48</code><name>terminated</name></instanceState>
            <stateReason><code>Server.SpotInstanceTermination</code><message>m</message></stateReason>
            <clientToken>u1</clientToken><instanceType>m7i.large</instanceType>
            <placement><availabilityZone>eu-central-1a</availabilityZone></placement>
            <tagSet><item><key>k</key><value>a &amp; b</value></item><item><key>e</key><value/></item></tagSet>
        </item></instancesSet></item><item/></reservationSet><nextToken>n</nextToken></DescribeInstancesResponse>";

    #[test]
    fn page_has_the_instances_of_all_reservations_and_its_next_one() {
        let page: Page<Instance> = answer(LISTED.as_bytes(), "DescribeInstances").unwrap();
        assert_eq!(page.next.as_deref(), Some("n"));
        let [found] = page.items.as_slice() else {
            panic!("{page:?}");
        };
        assert_eq!(found.state, "terminated");
        let reason = found.reason.as_ref().unwrap();
        assert_eq!(reason.0, "Server.SpotInstanceTermination");
        assert_eq!(found.tags["k"], "a & b");
        assert_eq!(found.tags["e"], "");
        assert_eq!(found.private_ip, None);
    }

    #[test]
    fn answer_to_something_else_or_a_half_one_is_none() {
        let of = |body: &str| answer::<Page<Instance>>(body.as_bytes(), "DescribeInstances");
        assert!(of("<html>busy</html>").is_err());
        assert!(of("<DescribeInstancesResponse/>").is_err(), "no list");
        assert!(of(&LISTED[..200]).is_err());
        let bare = LISTED.replace("<instanceId>i-0123456789abcdef0</instanceId>", "");
        assert!(of(&bare).is_err());
        let empty = "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>";
        assert!(of(empty).unwrap().items.is_empty());
    }

    #[test]
    fn fault_of_either_service_is_read() {
        let ec2 = "<Response><Errors><Error><Code>A</Code><Message>m</Message></Error></Errors></Response>";
        let sts = "<ErrorResponse xmlns=\"x\"><Error><Type>Sender</Type><Code>A</Code><Message>m</Message></Error>\
                   <RequestId>r</RequestId></ErrorResponse>";
        for body in [ec2, sts] {
            let fault = fault(body.as_bytes());
            assert_eq!((fault.code.as_str(), fault.message.as_str()), ("A", "m"));
        }
        assert_eq!(fault(b"upstream"), Fault::default());
    }

    #[test]
    fn number_of_an_id_leads_back_to_it() {
        for id in ["i-0123456789abcdef0", "i-1234abcd"] {
            assert_eq!(instance_id(number(id).unwrap()), id);
        }
        for id in ["i-", "i-12", "0123", "i-zz34abcd"] {
            assert_eq!(number(id), None, "{id}");
        }
    }
}
