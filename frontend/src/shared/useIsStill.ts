/** Rows that are only scrolled past load no image. */

import { useEffect, useState } from 'react';

const DELAY_MS = 150;

/** Return true once the row has been shown for a moment. */
export function useIsStill(): boolean {
  const [isStill, setStill] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setStill(true), DELAY_MS);
    return () => clearTimeout(timer);
  }, []);
  return isStill;
}
