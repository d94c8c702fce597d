//! What a node pool leaves out about its virtual machines, filled in.
//!
//! Invariant: total and pure; the operator's kernel boots the operator's image alone, because
//! nobody knows where another image has its root file system.

use api::Quantity;
use api::node_pool::{KernelBoot, KubeVirt};
use providers::Offering;
use tenant_cp::settings::KubeVirtSettings;

use crate::needs::needs;

/// Images that one virtual machine boots from.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// Image with the root disk.
    pub image: String,
    /// Kernel to boot directly; none: the root disk's boot loader.
    pub kernel_boot: Option<KernelBoot>,
}

/// The images for a Kubernetes version (`1.35.4`).
#[must_use]
pub fn resolve(wanted: &KubeVirt, version: &str, settings: &KubeVirtSettings) -> Resolved {
    match &wanted.image {
        Some(image) => Resolved {
            image: image.clone(),
            kernel_boot: wanted.kernel_boot.clone(),
        },
        None => {
            let (image, kernel) = settings.images(version);
            Resolved {
                image,
                kernel_boot: wanted.kernel_boot.clone().or(kernel),
            }
        }
    }
}

/// What such a virtual machine offers, and takes. It has no price, and the management cluster's
/// scheduler chooses where it runs.
#[must_use]
pub fn offering(wanted: &KubeVirt, settings: &KubeVirtSettings) -> Offering {
    Offering {
        cpu: Quantity(wanted.cpu.to_string()),
        memory: wanted.memory.clone(),
        price: None,
        zones: Vec::new(),
        needs: needs(wanted, settings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(image: &str) -> KernelBoot {
        KernelBoot {
            image: image.to_owned(),
            kernel_path: "/k".to_owned(),
            initrd_path: String::new(),
            kernel_args: "quiet".to_owned(),
        }
    }

    fn settings() -> KubeVirtSettings {
        KubeVirtSettings {
            image: "m.example.com/worker:v{version}".to_owned(),
            ..KubeVirtSettings::default()
        }
    }

    #[test]
    fn the_operators_images_are_those_of_the_version_and_the_kernel_is_in_the_same() {
        let mut settings = settings();
        let kernel_of = |settings: &KubeVirtSettings| {
            let resolved = resolve(&KubeVirt::default(), "1.35.4", settings);
            assert_eq!(resolved.image, "m.example.com/worker:v1.35.4");
            resolved.kernel_boot.map(|kernel| kernel.image)
        };
        let expected = "m.example.com/worker:v1.35.4";
        assert_eq!(kernel_of(&settings).as_deref(), Some(expected));
        settings.kernel.image = Some("m.example.com/kernel:v{version}".to_owned());
        let expected = "m.example.com/kernel:v1.35.4";
        assert_eq!(kernel_of(&settings).as_deref(), Some(expected));
        settings.kernel.enabled = false;
        assert_eq!(kernel_of(&settings), None);
    }

    #[test]
    fn an_image_of_the_users_boots_by_itself_or_by_the_users_kernel() {
        let mut wanted = KubeVirt {
            image: Some("u.example.com/{version}".to_owned()),
            ..KubeVirt::default()
        };
        let resolved = resolve(&wanted, "1.35.4", &settings());
        assert_eq!(resolved.image, "u.example.com/{version}");
        assert_eq!(resolved.kernel_boot, None);
        wanted.kernel_boot = Some(kernel("u.example.com/kernel"));
        let resolved = resolve(&wanted, "1.35.4", &settings());
        assert_eq!(resolved.kernel_boot, wanted.kernel_boot);
    }

    #[test]
    fn a_machine_offers_what_the_pool_asks_for() {
        let offered = offering(&KubeVirt::default(), &settings());
        assert_eq!(
            (offered.cpu.0.as_str(), offered.memory.0.as_str()),
            ("2", "4Gi")
        );
        assert_eq!((offered.price, offered.zones), (None, Vec::new()));
        assert!(offered.needs.is_some_and(|needs| needs.memory > 4 << 30));
    }
}
