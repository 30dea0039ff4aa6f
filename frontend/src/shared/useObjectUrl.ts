/** A URL of a file that was loaded: the token is sent in a header, never in a URL. */

import { useEffect, useState } from 'react';

/** Return null until the file is loaded. */
export function useObjectUrl(data: Blob | undefined): string | null {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    if (data === undefined) return undefined;
    const made = URL.createObjectURL(data);
    setUrl(made);
    return () => {
      URL.revokeObjectURL(made);
      setUrl(null);
    };
  }, [data]);
  return url;
}
