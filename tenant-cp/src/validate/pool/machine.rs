//! Validation of the machines that a node pool asks for.
//!
//! Invariant: no message repeats a key, because what somebody pasted may be the private one.

use api::Reason;
use api::node_pool::{CloudMachines, KernelBoot, KubeVirt, Provider, ProviderKind};

use crate::problem::Problem;
use crate::settings::providers::ProviderSettings;
use crate::text;
use crate::validate::{attached, quantity, scheduling};

/// With less, the kubelet, the container runtime and the addons of a node do not get up.
const LEAST_MEMORY: &str = "1Gi";
/// More than any machine has: somebody took the wrong suffix.
const MOST_MEMORY: &str = "16Ti";
/// Processors that KubeVirt's machine type boots with.
const PROCESSORS: std::ops::RangeInclusive<i32> = 1..=128;
/// Beyond this a management node that is drained waits for nothing.
const LONGEST_SHUTDOWN: std::time::Duration = std::time::Duration::from_secs(3600);

pub(super) fn check(provider: &Provider, settings: &ProviderSettings, problems: &mut Vec<Problem>) {
    if let Some(hosts) = &provider.static_ {
        if !settings.static_.enabled {
            problems.push(Problem::new(
                "spec.provider.static",
                Reason::ProviderNotConfigured,
                "this management cluster takes no machines that are reached by SSH: use another provider, or ask its \
                 administrator for providers.static.enabled in the operator's configuration",
            ));
        }
        let labels = "spec.provider.static.selector.matchLabels";
        scheduling::check_selector(labels, &hosts.selector.match_labels, problems);
        let memory = hosts.selector.memory.as_ref();
        if let Some(memory) = memory.filter(|memory| quantity::nanos(&memory.0).is_none()) {
            problems.push(Problem::new(
                "spec.provider.static.selector.memory",
                Reason::QuantityMalformed,
                quantity::malformed(&memory.0),
            ));
        }
        return;
    }
    if let Some(cloud) = provider.cloud() {
        let (words, is_enabled) = match cloud.kind {
            ProviderKind::Gcp => (GCP, settings.gcp.enabled),
            ProviderKind::Azure => (AZURE, settings.azure.enabled),
            ProviderKind::Aws => (AWS, settings.aws.enabled),
            _ => (HETZNER, settings.hetzner.enabled),
        };
        of_cloud(&cloud, &words, is_enabled, problems);
        return;
    }
    let Some(kubevirt) = &provider.kubevirt else {
        let message = "name exactly one provider, such as kubevirt: {}";
        problems.push(Problem::new(
            "spec.provider",
            Reason::ProviderMissing,
            message,
        ));
        return;
    };
    if !settings.kubevirt.enabled {
        problems.push(Problem::new(
            "spec.provider.kubevirt",
            Reason::ProviderNotConfigured,
            "this management cluster makes no machines by kubevirt: use another provider, or ask \
             its administrator for providers.kubevirt.enabled in the operator's configuration",
        ));
    }
    sizes(kubevirt, problems);
    placement(kubevirt, problems);
    attached::check(kubevirt, problems);
    let field = |name: &str| format!("spec.provider.kubevirt.{name}");
    if let Some(image) = &kubevirt.image
        && let Err(message) = text::image::image(image)
    {
        problems.push(Problem::new(
            field("image"),
            Reason::ImageMalformed,
            message,
        ));
    }
    if let Some(kernel) = &kubevirt.kernel_boot {
        check_kernel(&field("kernelBoot"), kernel, problems);
    }
    let shutdown = &kubevirt.shutdown_timeout;
    if shutdown.get().is_none_or(|time| time > LONGEST_SHUTDOWN) {
        problems.push(Problem::new(
            field("shutdownTimeout"),
            Reason::DurationMalformed,
            format!(
                "\"{}\" is not a length of time up to one hour: write minutes and seconds, such \
                 as 30s or 2m",
                shutdown.0
            ),
        ));
    }
}

/// How things of a cloud are named.
struct Words {
    /// The cloud.
    cloud: &'static str,
    /// A ProviderConfig, for example.
    config: &'static str,
    /// A size.
    size: &'static str,
    /// What its name may have besides letters and digits.
    of_size: &'static str,
    /// An image.
    image: &'static str,
    /// What its name begins with.
    root: &'static str,
    /// What its name may have besides letters and digits.
    of_image: &'static str,
    /// Most characters of it.
    longest_image: usize,
}

const HETZNER: Words = Words {
    cloud: "Hetzner",
    config: "hetzner",
    size: "cx32",
    of_size: "-",
    image: "98765432",
    root: "",
    of_image: "-._",
    longest_image: 63,
};
const GCP: Words = Words {
    cloud: "Google",
    config: "google",
    size: "e2-standard-4",
    of_size: "-",
    image: "projects/PROJECT/global/images/NAME",
    root: "",
    of_image: "-.:/",
    longest_image: 255,
};
const AZURE: Words = Words {
    cloud: "Azure",
    config: "azure",
    size: "Standard_D4s_v5",
    of_size: "-_",
    image: "/subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.Compute/images/NAME",
    root: "/subscriptions/",
    of_image: "-._()/",
    longest_image: 512,
};

const AWS: Words = Words {
    cloud: "AWS",
    config: "aws",
    size: "m7i.xlarge",
    of_size: "-.",
    image: "ami-0123456789abcdef0",
    root: "ami-",
    of_image: "",
    longest_image: 17,
};

/// Machines of a cloud. What there is of sizes and images only the cloud knows.
fn of_cloud(
    wanted: &CloudMachines<'_>,
    words: &Words,
    is_enabled: bool,
    problems: &mut Vec<Problem>,
) {
    let provider = wanted.kind.as_str();
    let field = format!("spec.provider.{provider}");
    if !is_enabled {
        problems.push(Problem::new(
            &field,
            Reason::ProviderNotConfigured,
            format!(
                "this management cluster makes no machines at {}: use another provider, or ask its administrator for \
                 providers.{provider}.enabled in the operator's configuration",
                words.cloud
            ),
        ));
    }
    let mut check = |name: &str, value: &str, also: &str, most: usize, example: &str| {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
        let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let ends = is_end(value.chars().next()) && is_end(value.chars().last());
        if !ends || value.len() > most || !value.chars().all(is_inner) {
            let message =
                format!("this is no name that could be known there: write one such as {example}");
            let field = format!("{field}.{name}");
            problems.push(Problem::new(field, Reason::CloudNameMalformed, message));
        }
    };
    check("configName", wanted.config_name, "-.", 253, words.config);
    for (number, name) in wanted.types.iter().enumerate() {
        let field = format!("types[{number}]");
        check(&field, name, words.of_size, 63, words.size);
    }
    if let Some(image) = wanted.image {
        let (also, most) = (words.of_image, words.longest_image);
        // Without what it has to begin with nothing is left that could be a name.
        let rest = image.strip_prefix(words.root).unwrap_or_default();
        check("image", rest, also, most, words.image);
    }
    if wanted.types.is_empty() {
        let message = format!("no size is named: name one, such as {}", words.size);
        let field = format!("{field}.types");
        problems.push(Problem::new(field, Reason::CloudNameMalformed, message));
    }
}

/// Devices of one kind that a machine may have (KubeVirt has no bound; a node has fewer).
const DEVICES: std::ops::RangeInclusive<i32> = 1..=16;

/// Where the machine runs, and what it takes there.
fn placement(kubevirt: &KubeVirt, problems: &mut Vec<Problem>) {
    const FIELD: &str = "spec.provider.kubevirt";
    let selector = format!("{FIELD}.nodeSelector");
    scheduling::check_selector(&selector, &kubevirt.node_selector, problems);
    scheduling::check_tolerations(FIELD, &kubevirt.tolerations, problems);
    let lists = [
        ("gpus", &kubevirt.gpus),
        ("hostDevices", &kubevirt.host_devices),
    ];
    for (name, devices) in lists {
        for (number, device) in devices.iter().enumerate() {
            let called = device.device_name.as_str();
            let is_name = called.contains('/') && text::is_qualified_name(called);
            let twice = devices[..number]
                .iter()
                .any(|other| other.device_name == called);
            let message = if !is_name {
                format!(
                    "\"{called}\" is not the name of a device: write it as nodes do, such as \
                     nvidia.com/GP102GL_Tesla_P40"
                )
            } else if !DEVICES.contains(&device.count) {
                format!("{} devices cannot be had: choose 1 to 16", device.count)
            } else if twice {
                format!("{called} is named twice: use count")
            } else {
                continue;
            };
            let field = format!("{FIELD}.{name}[{number}]");
            problems.push(Problem::new(field, Reason::DeviceMalformed, message));
        }
    }
    let memory = kubevirt.memory.0.as_str();
    if let Some(pages) = kubevirt.huge_pages
        && let (Some(all), Some(page)) = (quantity::bytes(memory), quantity::bytes(pages.as_str()))
        && all % page != 0
    {
        let pages = pages.as_str();
        problems.push(Problem::new(
            format!("{FIELD}.hugePages"),
            Reason::MemoryNotInPages,
            format!("{memory} is no whole number of pages of {pages}: choose another memory"),
        ));
    }
}

/// A kernel of the user's, or of the operator's configuration.
pub(in crate::validate) fn check_kernel(
    field: &str,
    kernel: &KernelBoot,
    problems: &mut Vec<Problem>,
) {
    if let Err(message) = text::image::image(&kernel.image) {
        problems.push(Problem::new(
            format!("{field}.image"),
            Reason::ImageMalformed,
            message,
        ));
    }
    for (name, path, may_be_empty) in [
        ("kernelPath", &kernel.kernel_path, false),
        ("initrdPath", &kernel.initrd_path, true),
    ] {
        let fine = (path.is_empty() && may_be_empty)
            || (path.len() > 1 && path.starts_with('/') && !path.contains(char::is_whitespace));
        if path.split('/').any(|part| part == "..") {
            problems.push(Problem::new(
                format!("{field}.{name}"),
                Reason::PathMalformed,
                format!("\"{path}\" leads upwards: name the file without .., as in /boot/vmlinuz"),
            ));
            continue;
        }
        if !fine {
            problems.push(Problem::new(
                format!("{field}.{name}"),
                Reason::PathMalformed,
                format!("\"{path}\" is not a path in the image: begin with /, as in /boot/vmlinuz"),
            ));
        }
    }
    if kernel.kernel_args.contains(char::is_control) {
        problems.push(Problem::new(
            format!("{field}.kernelArgs"),
            Reason::KernelArgsMalformed,
            "arguments are one line: put spaces between them",
        ));
    }
}

fn sizes(kubevirt: &KubeVirt, problems: &mut Vec<Problem>) {
    if !PROCESSORS.contains(&kubevirt.cpu) {
        problems.push(Problem::new(
            "spec.provider.kubevirt.cpu",
            Reason::ProcessorsRange,
            format!(
                "{} processors cannot be had: choose {} to {}",
                kubevirt.cpu,
                PROCESSORS.start(),
                PROCESSORS.end()
            ),
        ));
    }
    let memory = kubevirt.memory.0.as_str();
    let field = "spec.provider.kubevirt.memory";
    let amount = quantity::nanos(memory);
    let problem = if amount.is_none() {
        Problem::new(
            field,
            Reason::QuantityMalformed,
            quantity::malformed(memory),
        )
    } else if amount < quantity::nanos(LEAST_MEMORY) {
        Problem::new(
            field,
            Reason::MemoryTooSmall,
            format!(
                "{memory} is less than {LEAST_MEMORY}, with which no node becomes ready: write \
                 gibibytes as Gi, as in 4Gi (a number alone counts bytes)"
            ),
        )
    } else if amount > quantity::nanos(MOST_MEMORY) {
        Problem::new(
            field,
            Reason::MemoryTooLarge,
            format!(
                "{memory} is more than {MOST_MEMORY}: check the suffix; 4Gi are four gibibytes"
            ),
        )
    } else {
        return;
    };
    problems.push(problem);
}

/// Types of keys that OpenSSH still takes by default (sshd_config, `PubkeyAcceptedAlgorithms`).
const KEY_TYPES: [&str; 7] = [
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "sk-ssh-ed25519@openssh.com",
    "ssh-ed25519",
    "ssh-rsa",
];

pub(super) fn check_keys(keys: &[String], problems: &mut Vec<Problem>) {
    for (number, key) in keys.iter().enumerate() {
        let message = if key.contains("PRIVATE KEY") {
            "this is a private key: give the public one (the file that ends in .pub), and make a \
             new pair, because this one is no secret any more"
        } else if key.contains(char::is_control) {
            "a key is one line: make each line an entry of its own"
        } else if !is_public_key(key) {
            "this is not a public SSH key: write it as in authorized_keys, such as \
             \"ssh-ed25519 AAAA… jane@example.com\""
        } else {
            continue;
        };
        let field = format!("spec.sshAuthorizedKeys[{number}]");
        problems.push(Problem::new(field, Reason::KeyMalformed, message));
    }
}

/// A known type and then base64; options may stand before it, a comment after it.
fn is_public_key(text: &str) -> bool {
    let base64 = |word: &str| {
        word.starts_with("AAAA")
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
    };
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    words
        .windows(2)
        .any(|pair| KEY_TYPES.contains(&pair[0]) && base64(pair[1]))
}
