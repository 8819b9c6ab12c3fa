//! Byte counters that drivers report through `ethtool -S`, by driver.
//!
//! Names: mlx5 `en_stats.c` and the kernel's page on its counters; mlx4 `en_ethtool.c`; ice
//! `ice_ethtool.c`; i40e `i40e_ethtool.c`; bnxt `bnxt_ethtool.c`.

/// The names of a driver's counters: sent, received.
type Names = [&'static str; 2];

/// The counters of a driver that matter for RDMA.
pub(super) struct Driver {
    /// As the kernel names it.
    name: &'static str,
    /// Every byte on the cable.
    pub(super) whole: Names,
    /// Bytes of RDMA alone.
    pub(super) rdma: Option<Names>,
}

const DRIVERS: [Driver; 5] = [
    Driver {
        name: "mlx5_core",
        whole: ["tx_bytes_phy", "rx_bytes_phy"],
        rdma: Some(["tx_vport_rdma_unicast_bytes", "rx_vport_rdma_unicast_bytes"]),
    },
    Driver { name: "mlx4_core", whole: ["tx_bytes_phy", "rx_bytes_phy"], rdma: None },
    Driver { name: "ice", whole: ["tx_bytes.nic", "rx_bytes.nic"], rdma: None },
    Driver { name: "i40e", whole: ["port.tx_bytes", "port.rx_bytes"], rdma: None },
    // These are the port's. Other drivers give the same names to what the kernel counts anyway.
    Driver { name: "bnxt_en", whole: ["tx_bytes", "rx_bytes"], rdma: None },
];

/// The counters of a driver; `None` if they are not known.
pub(super) fn driver(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|driver| driver.name == name)
}

/// The values of two counters in a page of `ethtool -S`; `None` unless both are there.
pub(super) fn values(page: &str, names: Names) -> Option<[u64; 2]> {
    let value = |name: &str| {
        page.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            (found.trim() == name).then(|| value.trim().parse().ok())?
        })
    };
    Some([value(names[0])?, value(names[1])?])
}
