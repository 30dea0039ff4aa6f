/** A text field. Inside a `Field` it is connected to its label, hint and error. */

import { Input as Base } from '@base-ui/react/input';
import type { ComponentProps, ComponentPropsWithRef } from 'react';
import { cn } from './cn';

export const inputClass =
  'min-h-8 w-full rounded-md border border-input bg-background px-2.5 text-sm text-foreground outline-offset-0 ' +
  'focus-visible:border-ring aria-invalid:border-bad data-invalid:border-bad disabled:text-faint';

type InputProps = ComponentPropsWithRef<'input'> & Pick<ComponentProps<typeof Base>, 'onValueChange'>;

export function Input({ className, ...others }: InputProps) {
  return <Base className={cn(inputClass, className)} {...others} />;
}

export function TextArea({ className, ...others }: ComponentPropsWithRef<'textarea'>) {
  return <Base render={<textarea className={cn(inputClass, 'py-1.5', className)} {...others} />} />;
}
