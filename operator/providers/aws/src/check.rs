//! Proves that machines can be made as they are asked for, as far as that can be asked without making one.
//!
//! Invariant: nothing is made; EC2 itself says whether it would make one (`DryRun`), which holds for rights and for what is
//! named, and not for room and quota.

use jiff::{SignedDuration, Timestamp};
use providers::identity::Owner;
use providers::offering::Size;
use providers::refused::Asked;
use providers::{Checked, FaultKind, Refused};

use crate::cloud::{Cloud, held};
use crate::offerings::{self, Offered, fits};
use crate::parameters::run;
use crate::plan;
use crate::refusal::{NO_SUCH, asked};
use crate::schema::Image;
use crate::settings::Wanted;

/// How old what there is to be had may be.
const SIZES: SignedDuration = SignedDuration::from_hours(6);
/// Addresses that a subnet has left at least, so that machines that are replaced have room.
const FREE: u32 = 8;

impl Cloud {
    /// Proves that machines can be made.
    ///
    /// # Errors
    /// Why none could be made.
    pub async fn check(
        &self,
        types: &[String],
        images: &[String],
        is_spot: bool,
    ) -> Result<Checked, Refused> {
        // What was known of credentials may have changed since.
        *held(&self.account) = None;
        let account = self.account().await?;
        self.check_subnet().await?;
        let sizes = self.sizes(types, is_spot).await?;
        for id in images {
            let image = self.check_image(id).await?;
            if let Some(other) = sizes.iter().find(|size| !fits(&image.architecture, size)) {
                let why = format!(
                    "it is for {}, and {} is not",
                    image.architecture, other.name
                );
                return Err(no_image(&asked("use", format!("image {id}")), &why));
            }
        }
        if let (Some(size), Some(image)) = (types.first(), images.first()) {
            let wanted = Wanted {
                owner: Owner {
                    installation: self.place.installation.clone(),
                    machine: "check".to_owned(),
                    ..Owner::default()
                },
                since: self.calls.now(),
                size: size.clone(),
                image: image.clone(),
                disk: 30,
                is_spot,
                user_data: String::new(),
            };
            self.calls.would_run(run(&wanted, &self.place)).await?;
        }
        Ok(Checked {
            account: Some(account),
        })
    }

    async fn check_subnet(&self) -> Result<(), Refused> {
        let place = &self.place;
        let asked = asked("use", format!("subnet {}", place.subnet));
        let terminal = |why: &str| Refused {
            mend: Some(
                "change spec.aws.subnetID or spec.aws.zone of the ProviderConfig".to_owned(),
            ),
            ..asked.refused(FaultKind::Terminal, NO_SUCH, why)
        };
        let found = self.calls.subnet(&place.subnet).await?;
        let found = found.ok_or_else(|| terminal("there is no such subnet"))?;
        if found.zone != place.zone {
            return Err(terminal(&format!("it is in zone {}", found.zone)));
        }
        match found.free {
            Some(free) if free < FREE => Err(Refused {
                mend: Some(
                    "name a larger subnet as spec.aws.subnetID of the ProviderConfig, or delete what has its addresses"
                        .to_owned(),
                ),
                ..asked.refused(
                    FaultKind::Quota { again: None },
                    "InsufficientFreeAddressesInSubnet",
                    format!("it has {free} addresses left"),
                )
            }),
            _ => Ok(()),
        }
    }

    async fn check_image(&self, id: &str) -> Result<Image, Refused> {
        let asked = asked("use", format!("image {id}"));
        let found = match plan::is_image(id) {
            true => self.calls.image(id).await?,
            false => None,
        };
        let found = found.ok_or_else(|| no_image(&asked, "there is no such image"))?;
        if found.state != "available" {
            return Err(no_image(&asked, &format!("it is {}", found.state)));
        }
        if found.root_device != self.place.root_device {
            let why = format!("it calls its first disk {}", found.root_device);
            return Err(no_image(&asked, &why));
        }
        Ok(found)
    }

    /// The sizes of these names, at most six hours old. Their price is that of instances that may be taken back, where
    /// those are asked for.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub async fn sizes(&self, types: &[String], is_spot: bool) -> Result<Vec<Size>, Refused> {
        let (now, zone) = (self.clock.now(), &self.place.zone);
        let mut known = self.offered.lock().await;
        let old = |(at, _): &(Timestamp, Offered)| now.duration_since(*at) >= SIZES;
        if known.as_ref().is_none_or(old) {
            let offered = Offered {
                types: self.calls.types().await?,
                here: self.calls.types_in(zone).await?,
                prices: self.calls.spot_prices(zone).await?,
            };
            *known = Some((now, offered));
        }
        let found = known.as_ref();
        let found = found.map(|(_, offered)| offerings::sizes(offered, types, zone, is_spot));
        found.unwrap_or_else(|| Ok(Vec::new()))
    }

    /// The same as far as it is known already, however old; none where nothing is, or somebody asks at the moment.
    ///
    /// # Errors
    /// As [`Self::sizes`].
    pub fn known_sizes(
        &self,
        types: &[String],
        is_spot: bool,
    ) -> Result<Option<Vec<Size>>, Refused> {
        let known = self.offered.try_lock().ok();
        let known = known.as_ref().and_then(|known| known.as_ref());
        let zone = &self.place.zone;
        let of =
            |(_, offered): &(Timestamp, Offered)| offerings::sizes(offered, types, zone, is_spot);
        known.map(of).transpose()
    }
}

fn no_image(asked: &Asked, why: &str) -> Refused {
    Refused {
        mend: Some(
            "name an image by its ID that is for the type, and what it calls its first disk: change the image of the \
             node pool, or spec.aws.images and spec.aws.rootDevice of the ProviderConfig"
                .to_owned(),
        ),
        ..asked.refused(FaultKind::Terminal, NO_SUCH, why)
    }
}
