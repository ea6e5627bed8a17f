//! A confidence interval of a median, from the order of the samples.
//!
//! The number of samples below the true median has a binomial distribution with probability one
//! half, whatever the samples' distribution is. At each end, the interval excludes the largest
//! number of samples for which the median lies beyond the interval with a probability of at most
//! 2.5%.

/// Returns the 95% confidence interval of the median of sorted samples. With fewer than six
/// samples, that is their whole range.
pub(super) fn interval(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    let (mut chance, mut sum, mut cut) = (0.5_f64.powi(count as i32), 0.0, 0);
    while cut < count {
        sum += chance;
        if sum > 0.025 {
            break;
        }
        cut += 1;
        chance *= (count - cut + 1) as f64 / cut as f64;
    }
    // The sample at the cut is inside the interval.
    let first = cut.saturating_sub(1).min(count.saturating_sub(1));
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    (at(first), at(count.saturating_sub(1 + first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_known_sizes() {
        let samples: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(interval(&samples), (6.0, 15.0));
        assert_eq!(interval(&samples[..10]), (2.0, 9.0));
        assert_eq!(interval(&samples[..5]), (1.0, 5.0));
        assert_eq!(interval(&samples[..1]), (1.0, 1.0));
        assert!(interval(&[]).0.is_nan());
    }
}
