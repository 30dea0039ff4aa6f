/** A button for what cannot be taken back (a person or a key is let in no more): pressed once it asks, twice it does. */

import { useState } from 'react';
import { Button } from './Button';

interface Props {
  words: string;
  /** What it asks, for those who do not see the button change. */
  question: string;
  onSure: () => void;
}

export function Confirm({ words, question, onSure }: Props) {
  const [asked, setAsked] = useState(false);
  return (
    <Button
      kind="quiet"
      danger
      aria-label={asked ? `${question} Press again to do it.` : `${words}: ${question}`}
      onBlur={() => setAsked(false)}
      onClick={() => {
        setAsked(!asked);
        if (asked) onSure();
      }}
    >
      {asked ? 'Sure?' : words}
    </Button>
  );
}
