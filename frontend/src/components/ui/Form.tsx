/** A form whose submission stays on the page. */

import type { ComponentPropsWithRef } from 'react';

interface Props extends Omit<ComponentPropsWithRef<'form'>, 'onSubmit'> {
  onSubmit: () => unknown;
}

export function Form({ onSubmit, ...others }: Props) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
      {...others}
    />
  );
}
